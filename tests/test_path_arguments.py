"""`pathlib.Path` wherever Python users name a table, a root or a base."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.table import is_partitioned_table, open_partitioned
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.spark import session
from lance_spark.storage import open_store
from lance_spark.table.bases import BasePath

ROWS = pa.table({"a": [1, 2, 3]})


def test_write_open_and_clone(tmp_path: Path) -> None:
    path = tmp_path / "a table"
    assert lance_spark.write(ROWS, path).uri == str(path)
    lance_spark.write(ROWS, path, mode="append")
    dataset = lance_spark.open(path)
    assert dataset.count_rows() == 6
    clone = dataset.shallow_clone(tmp_path / "clone", 1)
    assert clone.uri == str(tmp_path / "clone")
    assert lance_spark.open(tmp_path / "clone").to_table() == ROWS


def test_bases(tmp_path: Path) -> None:
    bases = [BasePath.at(tmp_path / "base", "other")]
    lance_spark.write(ROWS, tmp_path / "t", initial_bases=bases, target_bases=["other"])
    assert list((tmp_path / "base").iterdir())
    dataset = lance_spark.open(tmp_path / "t").add_bases([BasePath.at(tmp_path / "more", "more")])
    assert [base.path for base in dataset.manifest.base_paths] == [str(tmp_path / "base"), str(tmp_path / "more")]
    assert dataset.to_table() == ROWS


def test_branch_by_its_root(tmp_path: Path) -> None:
    lance_spark.write(ROWS, tmp_path / "t").create_branch("b")
    assert lance_spark.open(tmp_path / "t" / "tree" / "b").branch == "b"


def test_stores_and_namespaces(tmp_path: Path) -> None:
    assert open_store(tmp_path).uri == str(tmp_path)
    namespace = DirectoryNamespace(tmp_path / "root")
    namespace.create_namespace(("db",))
    entry = namespace.declare_table(("db", "t"), location=tmp_path / "elsewhere")
    lance_spark.write(ROWS, entry.uri)
    assert lance_spark.open(tmp_path / "elsewhere").count_rows() == 3
    namespace.deregister_table(("db", "t"))
    namespace.register_table(("db", "again"), tmp_path / "elsewhere")
    assert namespace.list_tables(("db",)) == ["again"]


def test_partitioned_tables(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("a", pa.int64())])
    create_partitioned(tmp_path / "p", schema, [PartitionBy("a", ("a",), Identity())])
    assert open_partitioned(tmp_path / "p").root == str(tmp_path / "p")
    assert is_partitioned_table(tmp_path / "p")


def test_configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "jar_path", lambda version: "/some.jar")
    builder = SparkSession.Builder()
    key = tmp_path / "key.json"
    lance_spark.configure(builder, root=tmp_path / "tables", **{"storage.google_service_account": key})
    assert builder._options["spark.sql.catalog.lance.root"] == str(tmp_path / "tables")
    assert builder._options["spark.sql.catalog.lance.storage.google_service_account"] == str(key)


def test_path_made_of_a_uri_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="give the URI as a str"):
        lance_spark.open(Path("s3://bucket/table"))
    with pytest.raises(InvalidInputError, match="give the URI as a str"):
        lance_spark.configure(SparkSession.Builder(), root=Path("s3://bucket/table"))
