"""Lance tables in a real Hive metastore, with the generated classes of its protocol as the other client."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pymetastore.hive_metastore import ttypes
from pymetastore.metastore import HMS

import lance_spark
from integration.hive_metastore import hive_metastore
from lance_spark.errors import (
    AlreadyExistsError,
    CommitConflictError,
    InvalidInputError,
    NotEmptyError,
    NotFoundError,
)
from lance_spark.namespace.base import Namespace
from lance_spark.namespace.opening import CatalogPlace
from tests.support.hive_server import metastore_client, table_of_the_field

pytestmark = pytest.mark.timeout(900)
ROWS = pa.table({"a": [1, 2, 3]})


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with hive_metastore(tmp_path_factory.mktemp("metastore")) as found:
        yield found


@pytest.fixture
def other(port: int) -> Any:
    return metastore_client(port)


def opened(port: int, impl: str = "hive2", **settings: str) -> Namespace:
    return CatalogPlace(impl, settings={"uri": f"thrift://127.0.0.1:{port}", **settings}).open()


@pytest.fixture(params=["hive2", "hive3"])
def impl(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def top(impl: str) -> tuple[str, ...]:
    """The levels above a database."""
    return ("hive",) if impl == "hive3" else ()


@pytest.fixture
def db(port: int, impl: str, top: tuple[str, ...], request: pytest.FixtureRequest) -> str:
    """A database of the test."""
    name = "".join(letter if letter.isalnum() else "_" for letter in request.node.name.lower())
    opened(port, impl).create_namespace((*top, name), {"comment": "c", "k": "v"})
    return name


def test_create_list_rename_and_drop(port: int, impl: str, top: tuple[str, ...], db: str, other: Any) -> None:
    names = opened(port, impl, ugi="ann:staff")
    assert {"default", db} <= {*names.list_namespaces(top)}
    assert names.namespace_properties((*top, db)).items() >= {"comment": "c", "k": "v"}.items()
    declared = names.declare_table((*top, db, "T"), properties={"owner": "ann"})
    assert declared.is_declared
    lance_spark.write(ROWS, declared.uri)
    assert names.list_tables((*top, db)) == ["t"]
    found = names.table_location((*top, db, "t"))
    assert (found.properties, found.is_declared) == ({"owner": "ann"}, False)
    with pytest.raises(AlreadyExistsError):
        names.declare_table((*top, db, "t"))
    with pytest.raises(NotEmptyError):
        names.drop_namespace((*top, db))
    names.create_namespace((*top, f"{db}_2"))
    names.rename_table((*top, db, "t"), (*top, f"{db}_2", "u"))
    kept = other.get_table(f"{db}_2", "u")
    assert (kept.tableType, kept.parameters["EXTERNAL"], kept.owner) == ("EXTERNAL_TABLE", "TRUE", "ann")
    assert kept.sd.location == found.uri
    other.drop_table(f"{db}_2", "u", True)
    assert lance.dataset(found.uri).to_table() == ROWS
    names.register_table((*top, db, "back"), found.uri)
    assert names.table_location((*top, db, "back")) == type(found)(found.uri, {}, declared=False)
    names.drop_table((*top, db, "back"), purge=True)
    assert not Path(found.uri.removeprefix("file:")).exists()
    names.drop_namespace((*top, db))
    assert not names.namespace_exists((*top, db))
    with pytest.raises(NotFoundError):
        names.list_tables((*top, db))


def test_other_clients_see_the_entry(port: int, impl: str, top: tuple[str, ...], db: str, other: Any) -> None:
    place = opened(port, impl).declare_table((*top, db, "t")).uri
    assert HMS(other).list_tables(db) == ["t"]
    found = HMS(other).get_table(db, "t")
    assert [column.name for column in found.columns] == ["__placeholder_id"]
    assert (found.table_type, found.parameters["table_type"]) == ("EXTERNAL_TABLE", "lance")
    assert found.storage.location.removeprefix("file:") == place.removeprefix("file:")


def test_table_of_another_lance_client(
    port: int, impl: str, top: tuple[str, ...], db: str, other: Any, tmp_path: Path
) -> None:
    names = opened(port, impl)
    lance.write_dataset(ROWS, tmp_path / "theirs")
    table = table_of_the_field(db, "t", f"{tmp_path}/theirs/", owner="ann")
    table.parameters["table_type"] = "LANCE"
    other.create_table(table)
    assert other.get_table(db, "t").tableType == "MANAGED_TABLE"  # So a rename would move the files.
    names.rename_table((*top, db, "t"), (*top, db, "u"))
    assert lance.dataset(tmp_path / "theirs").to_table() == ROWS
    found = names.table_location((*top, db, "u"))
    assert (found.uri, found.properties) == (f"file:{tmp_path}/theirs", {"owner": "ann"})
    assert other.get_table(db, "u").tableType == "EXTERNAL_TABLE"
    other.drop_table(db, "u", True)
    assert lance.dataset(tmp_path / "theirs").to_table() == ROWS


def test_other_formats_stay(port: int, impl: str, top: tuple[str, ...], db: str, other: Any, tmp_path: Path) -> None:
    names = opened(port, impl)
    parquet = table_of_the_field(db, "p", str(tmp_path / "p"))
    parquet.parameters = {}
    other.create_table(parquet)
    view = ttypes.Table(
        tableName="v",
        dbName=db,
        sd=ttypes.StorageDescriptor(cols=parquet.sd.cols, serdeInfo=ttypes.SerDeInfo()),
        tableType="VIRTUAL_VIEW",
        viewOriginalText="SELECT 1",
        viewExpandedText="SELECT 1",
    )
    other.create_table(view)
    names.declare_table((*top, db, "t"))
    assert names.list_tables((*top, db)) == ["t"]
    for name in ("p", "v"):
        assert names.table_exists((*top, db, name))
        with pytest.raises(InvalidInputError, match="no Lance table"):
            names.drop_table((*top, db, name), purge=True)
    with pytest.raises(NotEmptyError):
        names.drop_namespace((*top, db), cascade=True)
    assert sorted(other.get_all_tables(db)) == ["p", "t", "v"]


def view_of(query: str) -> str:
    columns = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in (("a", "long"), ("B", []))
    ]
    told = {"format": 1, "query": query, "columns": json.dumps({"type": "struct", "fields": columns})}
    return json.dumps(told, ensure_ascii=False)


def test_views(port: int, impl: str, top: tuple[str, ...], db: str, other: Any) -> None:
    names, v = opened(port, impl, ugi="ann:staff"), (*top, db, "v")
    long = f"SELECT 'Zürich {'é' * 9000}' AS a"
    names.create_view(v, view_of(long))
    assert json.loads(names.view(v)) == json.loads(view_of(long))
    assert (names.list_views(v[:-1]), names.list_tables(v[:-1])) == (["v"], [])
    kept = other.get_table(db, "v")
    assert (kept.tableType, kept.owner) == ("VIRTUAL_VIEW", "ann")
    assert [(column.name, column.type) for column in kept.sd.cols] == [("a", "bigint"), ("b", "string")]
    assert HMS(other).get_table(db, "v").table_type == "VIRTUAL_VIEW"
    for taken in (names.create_view, lambda name, _text: names.declare_table(name)):
        with pytest.raises(AlreadyExistsError):
            taken(v, view_of("SELECT 1"))
    names.replace_view(v, view_of("SELECT 2"))
    assert json.loads(names.view(v)) == json.loads(view_of("SELECT 2"))
    assert other.get_table(db, "v").viewOriginalText == "SELECT 2"
    names.rename_view(v, (*top, db, "w"))
    assert (names.list_views(v[:-1]), other.get_all_tables(db)) == (["w"], ["w"])
    changed = other.get_table(db, "w")
    changed.viewOriginalText = "SELECT 'theirs'"
    other.alter_table_with_environment_context(db, "w", changed, ttypes.EnvironmentContext())
    assert names.list_views(v[:-1]) == []
    with pytest.raises(NotFoundError, match="is no view of Lance"):
        names.drop_view((*top, db, "w"))
    with pytest.raises(NotEmptyError):
        names.drop_namespace(v[:-1], cascade=True)
    other.drop_table(db, "w", True)
    names.create_view(v, view_of("SELECT 1"))
    names.drop_namespace(v[:-1], cascade=True)
    assert not names.namespace_exists(v[:-1])


def test_the_metastore_compares_before_it_changes_a_view(
    port: int, impl: str, top: tuple[str, ...], db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, v = opened(port, impl), (*top, db, "v")
    names.create_view(v, view_of("SELECT 1"))
    looked, times = type(names)._view, iter([True])  # type: ignore[attr-defined]

    def view(self: object, identifier: tuple[str, ...]) -> object:
        found = looked(self, identifier)
        if next(times, False):
            opened(port, impl).replace_view(v, view_of("SELECT 'rival'"))
        return found

    monkeypatch.setattr(type(names), "_view", view)
    with pytest.raises(CommitConflictError, match="run the statement again"):
        names.replace_view(v, view_of("SELECT 2"))
    assert json.loads(names.view(v)) == json.loads(view_of("SELECT 'rival'"))


def test_root_and_properties(port: int, impl: str, top: tuple[str, ...], tmp_path: Path, other: Any) -> None:
    names = opened(port, impl, root=str(tmp_path / "root"))
    database = f"rooted_{impl}"
    names.create_namespace((*top, database))
    assert names.declare_table((*top, database, "t")).uri == f"{tmp_path}/root/{database}.db/t"
    assert other.get_table(database, "t").sd.location == f"file:{tmp_path}/root/{database}.db/t"
    names.set_namespace_properties((*top, database), {"k": "w"})
    assert names.namespace_properties((*top, database))["k"] == "w"
    assert other.get_database(database).parameters == {"k": "w"}


def test_threads(port: int, impl: str, top: tuple[str, ...], db: str) -> None:
    names = opened(port, impl, **{"client.pool-size": "4"})
    made: list[str] = []

    def work(number: int) -> None:
        for _ in range(3):
            try:
                names.declare_table((*top, db, f"t{number // 2}"))
            except AlreadyExistsError:
                continue
            made.append(f"t{number // 2}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == ["t0", "t1", "t2", "t3"] == names.list_tables((*top, db))
