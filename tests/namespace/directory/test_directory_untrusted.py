"""Catalogs that others have written, badly or with bad intent."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CorruptFileError, InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.namespace.directory.catalog_table import CATALOG_SCHEMA
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.namespace.locations import checked_location, hashed_directory, listed_directory, requested_location

BAD_LOCATIONS = [
    None,
    "",
    ".",
    "..",
    "../outside",
    "a/../../outside",
    "a/../b",
    "/etc",
    "//host/share",
    "a//b",
    "a\\..\\b",
    "a\0b",
    "__manifest",
    "__manifest/data",
    "file:///x/../y",
    "s3://bucket/a/../b",
    "s3://",
    "s3://bucket/%2e%2e/x",
]


def write_rows(root: str, *rows: dict[str, str | None]) -> None:
    lance_spark.write(pa.Table.from_pylist(list(rows), schema=CATALOG_SCHEMA), f"{root}/__manifest", mode="append")


@pytest.mark.parametrize("location", BAD_LOCATIONS)
def test_a_location_must_not_leave_the_root(root: str, location: str | None) -> None:
    write_rows(
        root,
        {"object_id": "n", "object_type": "namespace"},
        {"object_id": "n$t", "object_type": "table", "location": location},
    )
    namespace = DirectoryNamespace(root)
    assert namespace.list_tables(("n",)) == ["t"]
    with pytest.raises(CorruptFileError):
        namespace.table_location(("n", "t"))
    with pytest.raises(CorruptFileError):
        namespace.drop_table(("n", "t"), purge=True)
    with pytest.raises(CorruptFileError):
        namespace.drop_namespace(("n",), cascade=True, purge=True)
    assert lance_spark.open(f"{root}/__manifest").count_rows() == 2


def test_nothing_outside_is_deleted(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"x")
    write_rows(
        str(root),
        {"object_id": "n", "object_type": "namespace"},
        {"object_id": "n$t", "object_type": "table", "location": outside.as_uri()},
    )
    namespace = DirectoryNamespace(str(root))
    with pytest.raises(InvalidInputError, match="outside of the root"):
        namespace.drop_table(("n", "t"), purge=True)
    with pytest.raises(InvalidInputError, match="outside of the root"):
        namespace.drop_namespace(("n",), cascade=True, purge=True)
    namespace.drop_namespace(("n",), cascade=True)
    assert (outside / "precious").exists()


@pytest.mark.parametrize("other", ["shared", "shared/below", "above"])
def test_files_of_another_table_are_not_deleted(root: str, other: str) -> None:
    mine = "above/below" if other == "above" else "shared"
    write_rows(
        root,
        {"object_id": "n", "object_type": "namespace"},
        {"object_id": "n$t", "object_type": "table", "location": mine},
        {"object_id": "u", "object_type": "table", "location": other},
    )
    namespace = DirectoryNamespace(root)
    with pytest.raises(InvalidInputError, match="'u' too"):
        namespace.drop_table(("n", "t"), purge=True)
    with pytest.raises(InvalidInputError, match="'u' too"):
        namespace.drop_namespace(("n",), cascade=True, purge=True)
    namespace.drop_table(("n", "t"), purge=False)
    namespace.drop_table(("u",), purge=True)


def test_an_id_that_stands_twice(root: str) -> None:
    row = {"object_id": "n", "object_type": "namespace"}
    write_rows(root, row, row)
    namespace = DirectoryNamespace(root)
    with pytest.raises(CorruptFileError, match="twice"):
        namespace.namespace_properties(("n",))
    with pytest.raises(CorruptFileError, match="twice"):
        namespace.drop_namespace(("n",))
    namespace.create_namespace(("m",))


@pytest.mark.parametrize("metadata", ["not json", "[]", '"x"', '{"a": 1}', '{"a": "\\ud800"}', "[" * 100_000, "{"])
def test_properties_that_are_none(root: str, metadata: str) -> None:
    write_rows(
        root,
        {"object_id": "n", "object_type": "namespace", "metadata": metadata},
        {"object_id": "t", "object_type": "table", "metadata": metadata, "location": "t.lance"},
    )
    namespace = DirectoryNamespace(root)
    with pytest.raises(CorruptFileError, match="JSON"):
        namespace.namespace_properties(("n",))
    with pytest.raises(CorruptFileError, match="JSON"):
        namespace.set_namespace_properties(("n",), {"a": "b"})
    with pytest.raises(CorruptFileError, match="JSON"):
        namespace.table_location(("t",))
    assert namespace.list_namespaces() == ["n"]
    namespace.create_namespace(("n", "m"))


def test_a_table_that_is_no_catalog(root: str) -> None:
    lance_spark.write(pa.table({"object_id": ["n"], "object_type": [1]}), f"{root}/__manifest")
    namespace = DirectoryNamespace(root)
    with pytest.raises(CorruptFileError, match="object_type"):
        namespace.list_tables()
    with pytest.raises(CorruptFileError, match="object_type"):
        namespace.create_namespace(("n",))


def test_a_null_where_none_may_be(root: str) -> None:
    # Without the mark of a primary key, which forbids nulls.
    nullable = pa.schema([field.with_nullable(True).remove_metadata() for field in CATALOG_SCHEMA])
    rows = pa.Table.from_pylist([{"object_type": "table"}, {"object_id": "n"}, {"object_id": "n$x"}], schema=nullable)
    lance_spark.write(rows, f"{root}/__manifest")
    namespace = DirectoryNamespace(root)
    assert namespace.list_namespaces() == []
    with pytest.raises(CorruptFileError):
        namespace.list_tables()
    with pytest.raises(CorruptFileError):
        namespace.namespace_properties(("n",))


def test_features_of_the_catalog_that_are_not_known(root: str) -> None:
    namespace = DirectoryNamespace(root)
    namespace.create_namespace(("n",))
    prefix = "lance.namespace.manifest."
    dataset = lance_spark.open(f"{root}/__manifest").update_metadata({f"{prefix}writer_feature_flags": "1"})
    assert namespace.list_namespaces() == ["n"]
    for change in (
        lambda: namespace.create_namespace(("m",)),
        lambda: namespace.set_namespace_properties((), {"a": "b"}),
        lambda: namespace.drop_namespace(("n",)),
    ):
        with pytest.raises(UnsupportedFeatureError):
            change()
    dataset.update_metadata({f"{prefix}writer_feature_flags": "0", f"{prefix}reader_feature_flags": "2"})
    with pytest.raises(UnsupportedFeatureError):
        namespace.list_namespaces()


def test_a_catalog_that_keeps_the_versions_of_its_tables(root: str) -> None:
    namespace = DirectoryNamespace(root)
    namespace.declare_table(("t",))
    lance_spark.open(f"{root}/__manifest").update_metadata({"table_version_management": "true"})
    assert namespace.list_tables() == ["t"]
    with pytest.raises(UnsupportedFeatureError):
        namespace.table_location(("t",))
    with pytest.raises(UnsupportedFeatureError):
        namespace.declare_table(("u",))
    assert not namespace.table_exists(("u",))


def test_a_catalog_with_damaged_files(tmp_path: Path) -> None:
    namespace = DirectoryNamespace(str(tmp_path))
    namespace.create_namespace(("n",))
    for file in (tmp_path / "__manifest" / "data").iterdir():
        file.write_bytes(file.read_bytes()[:-7])
    with pytest.raises(CorruptFileError):
        namespace.list_namespaces()
    with pytest.raises(CorruptFileError):
        namespace.create_namespace(("m",))


def test_a_namespace_does_not_become_a_table(root: str) -> None:
    write_rows(root, {"object_id": "n", "object_type": "namespace", "location": "n.lance"})
    namespace = DirectoryNamespace(root)
    with pytest.raises(NotFoundError):
        namespace.table_location(("n",))
    with pytest.raises(NotFoundError):
        namespace.drop_table(("n",), purge=True)


def test_given_locations_become_relative() -> None:
    assert requested_location("/root", "/root/a/b/") == "a/b"
    assert requested_location("/root", "file:///root/a%20b") == "a b"
    assert requested_location("s3://bucket/x", "s3://bucket/x/y%25") == "y%"
    assert requested_location("s3://bucket/x", "s3://bucket/xy") == "s3://bucket/xy"
    assert requested_location("/root", "/else where") == "file:///else%20where"
    assert requested_location("s3://bucket", "/local") == "file:///local"
    for inside in ("/root", "/", "file:///root", "a/./b", "a//b", ""):
        with pytest.raises(InvalidInputError):
            requested_location("/root", inside)


def test_directories_of_new_tables() -> None:
    assert len(hashed_directory("x" * 5000).encode()) < 255
    assert hashed_directory("n$t.lance").endswith("_n$t.lance_")
    assert hashed_directory("t") != hashed_directory("t")
    assert listed_directory("ü t") == "ü t.lance"
    for name in ("", ".", "..", "a/b", "a\\b", "a%b", "a$b", "a\x7fb", "ü" * 200):
        assert listed_directory(name) is None
    assert checked_location(hashed_directory("../../x\0\n")).count("/") == 0
