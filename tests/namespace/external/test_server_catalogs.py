"""What catalogs of Iceberg REST, Polaris and Unity have in common, with lance-namespace-impls as the other side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotEmptyError,
    NotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_spark.namespace.opening import CatalogPlace, check_kind
from lance_spark.storage.paths import place_of
from tests.support.catalog_servers import LOST, Fault, Request
from tests.support.iceberg_servers import IcebergServer, IcebergTable, PolarisServer
from tests.support.server_catalogs import KINDS, Opened, opened
from tests.support.unity_server import UnityServer

ROWS = pa.table({"a": [1, 2, 3]})


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    with opened(request.param, str(tmp_path / "root")) as found:
        yield found


def add_foreign(place: Opened, name: str) -> None:
    """A table of another format in namespace db."""
    if isinstance(place.server, UnityServer):
        place.server.tables[f"unity.db.{name}"] = {
            "name": name,
            "table_type": "EXTERNAL",
            "data_source_format": "DELTA",
            "storage_location": "s3://b/x",
            "table_id": "1",
            "columns": [],
        }
    elif isinstance(place.server, PolarisServer):
        table = {"name": name, "format": "delta", "base-location": "s3://b/x", "properties": {}}
        place.server.generic[("db",), name] = table
    else:
        assert isinstance(place.server, IcebergServer)
        place.server.tables[("db",), name] = IcebergTable("s3://b/x", {})


def test_tables_of_ours_are_read_by_the_other_side(place: Opened) -> None:
    ours, theirs = place.ours(), place.theirs()
    ours.create_namespace(("db",), {"owner": "ann"})
    assert theirs.ask("describe_namespace", "db").properties["owner"] == "ann"
    entry = ours.declare_table(("db", "t"), properties={"team": "x"})
    assert ours.table_location(("db", "t")).is_declared
    lance_spark.write(ROWS, entry.uri)
    assert theirs.ask("list_tables", "db").tables == ["t"]
    found = theirs.ask("describe_table", "db", "t", check_declared=True)
    assert lance.dataset(found.location).to_table() == ROWS
    assert found.properties["team"] == "x"
    assert found.is_only_declared is False
    theirs.ask("deregister_table", "db", "t")
    assert not ours.table_exists(("db", "t"))
    assert lance_spark.open(entry.uri).count_rows() == 3


def test_tables_of_the_other_side_are_read_by_ours(place: Opened) -> None:
    ours, theirs = place.ours(), place.theirs()
    theirs.ask("create_namespace", "db", properties={"owner": "bob"})
    assert ours.list_namespaces() == ["db"]
    assert ours.namespace_properties(("db",)) == {"owner": "bob"}
    location = theirs.ask("declare_table", "db", "t", properties={"team": "x"}).location
    assert ours.list_tables(("db",)) == ["t"]
    assert ours.table_location(("db", "t")).is_declared
    lance.write_dataset(ROWS, location)
    entry = ours.table_location(("db", "t"))
    assert (entry.is_declared, entry.properties) == (False, {"team": "x"})
    assert lance_spark.open(entry.uri).count_rows() == 3
    assert ours.spelling(("DB", "T"), is_table=True) == ("db", "t")
    with pytest.raises(AlreadyExistsError):
        ours.declare_table(("db", "t"))
    with pytest.raises(AlreadyExistsError):
        ours.create_namespace(("db",))
    ours.drop_table(("db", "t"), purge=True)
    assert theirs.ask("list_tables", "db").tables == []
    with pytest.raises(ValueError, match="not found"):
        lance.dataset(location)


def test_both_sides_choose_the_same_place(place: Opened) -> None:
    ours, theirs = place.ours(), place.theirs()
    ours.create_namespace(("db",))
    assert ours.declare_table(("db", "a")).uri == f"{place.root}/{place.level}/db/a"
    assert theirs.ask("declare_table", "db", "b").location == f"{place.root}/{place.level}/db/b"


def test_missing_objects(place: Opened) -> None:
    names = place.ours()
    names.create_namespace(("db",))
    assert names.namespace_exists(("db",))
    assert not names.namespace_exists(("other",))
    assert not names.table_exists(("db", "t"))
    assert not names.table_exists(("db", "t\x1fu"))
    assert not names.table_exists(("db", ".."))
    assert not names.table_exists(("other", "t"))
    for ask in (
        lambda: names.namespace_properties(("other",)),
        lambda: names.list_tables(("other",)),
        lambda: names.drop_namespace(("other",)),
        lambda: names.declare_table(("other", "t")),
        lambda: names.table_location(("db", "t")),
        lambda: names.drop_table(("db", "t"), purge=True),
        lambda: names.register_table(("db", "t"), f"{place.root}/nothing"),
    ):
        with pytest.raises(NotFoundError):
            ask()
    assert names.list_tables(("db",)) == []


def test_tables_of_other_formats_are_left_alone(place: Opened) -> None:
    names = place.ours()
    names.create_namespace(("db",))
    names.declare_table(("db", "t"))
    add_foreign(place, "x")
    assert names.list_tables(("db",)) == ["t"]
    assert names.table_exists(("db", "x"))
    with pytest.raises(InvalidInputError, match="no Lance table"):
        names.table_location(("db", "x"))
    with pytest.raises(InvalidInputError, match="no Lance table"):
        names.drop_table(("db", "x"), purge=True)
    with pytest.raises(NotEmptyError, match="other formats, such as 'x'"):
        names.drop_namespace(("db",), cascade=True)
    assert names.list_tables(("db",)) == ["t"]


def test_namespaces_are_dropped_with_their_tables_whose_files_stay(place: Opened) -> None:
    names = place.ours()
    names.create_namespace(("db",))
    uri = names.declare_table(("db", "t")).uri
    lance_spark.write(ROWS, uri)
    with pytest.raises(NotEmptyError):
        names.drop_namespace(("db",))
    names.drop_namespace(("db",), cascade=True)
    assert names.list_namespaces() == []
    assert lance.dataset(uri).count_rows() == 3


def test_files_of_a_dropped_table_are_not_those_of_the_next(place: Opened) -> None:
    names = place.ours()
    names.create_namespace(("db",))
    first = names.declare_table(("db", "t")).uri
    lance_spark.write(ROWS, first)
    names.drop_table(("db", "t"), purge=False)
    second = names.declare_table(("db", "t")).uri
    assert second != first
    assert names.table_location(("db", "t")).is_declared
    assert names.table_location(("db", "t")).uri.removeprefix("file://") == second
    names.drop_table(("db", "t"), purge=True)
    assert lance.dataset(first).count_rows() == 3
    with pytest.raises(AlreadyExistsError, match="there is a table at"):
        names.declare_table(("db", "t"), location=first)
    assert not names.table_exists(("db", "t"))
    names.register_table(("db", "t"), first)
    assert place.theirs().ask("describe_table", "db", "t").location.removeprefix("file://") == first


def test_a_table_within_a_table_is_not_deleted_with_it(place: Opened) -> None:
    names = place.ours()
    names.create_namespace(("db",))
    outer = names.declare_table(("db", "t")).uri
    inner = names.declare_table(("db", "u"), location=f"{outer}/u").uri
    lance_spark.write(ROWS, inner)
    lance_spark.write(ROWS, outer)
    with pytest.raises(InvalidInputError, match=r"another table lies in its folder.*without PURGE"):
        names.drop_table(("db", "t"), purge=True)
    assert names.table_exists(("db", "t"))
    names.drop_table(("db", "u"), purge=True)
    names.drop_table(("db", "t"), purge=True)
    assert not list(Path(outer).rglob("*.lance"))


@pytest.mark.parametrize("moves_to", ["/elsewhere/t", "", "s3://other/t"])
def test_a_server_that_puts_a_table_elsewhere(place: Opened, moves_to: str) -> None:
    names = place.ours()
    names.create_namespace(("db",))
    if place.kind != "unity" and moves_to.startswith("/"):
        moves_to = place.root + moves_to
    place.server.moves_to = moves_to  # type: ignore[attr-defined]
    with pytest.raises(StorageError, match=r"not at .*/db/t; its name was withdrawn"):
        names.declare_table(("db", "t"))
    assert not names.table_exists(("db", "t"))


@pytest.mark.parametrize("location", ["", "relative/t", "s3://b/../c", 7, None])
def test_locations_that_are_none(place: Opened, location: object) -> None:
    names = place.ours()
    names.create_namespace(("db",))
    names.declare_table(("db", "t"))
    server = place.server
    if isinstance(server, UnityServer):
        server.tables["unity.db.t"]["storage_location"] = location
    elif isinstance(server, PolarisServer):
        server.generic[("db",), "t"]["base-location"] = location
    else:
        assert isinstance(server, IcebergServer)
        server.tables[("db",), "t"].location = location  # type: ignore[assignment]
    with pytest.raises(StorageError, match=r"says that db\.t is at"):
        names.table_location(("db", "t"))
    with pytest.raises(StorageError, match=r"says that db\.t is at"):
        names.drop_table(("db", "t"), purge=True)
    assert names.table_exists(("db", "t"))


@pytest.mark.parametrize(
    "lost", [LOST, Fault(carried_out=True, status=502), Fault(carried_out=True, status=200, body="x")]
)
def test_a_table_is_made_once_when_the_answer_is_lost(place: Opened, lost: Fault) -> None:
    names = place.ours()
    names.create_namespace(("db",))
    before = len(place.server.asked("POST"))
    place.server.order("POST", "tables", lost)
    entry = names.declare_table(("db", "t"))
    assert len(place.server.asked("POST")) == before + 1
    lance_spark.write(ROWS, entry.uri)
    assert names.table_location(("db", "t")).uri.removeprefix("file://") == entry.uri
    place.server.order("DELETE", "tables", lost if lost.status != 200 else LOST)
    names.drop_table(("db", "t"), purge=True)
    assert len(place.server.asked("DELETE")) == 1
    assert not names.table_exists(("db", "t"))
    with pytest.raises(ValueError, match="not found"):
        lance.dataset(entry.uri)


def test_nothing_is_deleted_when_the_name_is_still_there(place: Opened) -> None:
    names = place.ours()
    names.create_namespace(("db",))
    uri = names.declare_table(("db", "t")).uri
    lance_spark.write(ROWS, uri)
    place.server.order("DELETE", "tables", Fault(status=500))
    with pytest.raises(StorageError, match="was not carried out so far"):
        names.drop_table(("db", "t"), purge=True)
    assert lance.dataset(uri).count_rows() == 3


def test_nothing_is_deleted_when_a_proxy_says_that_the_page_is_not_there(
    place: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = place.ours()
    names.create_namespace(("db",))
    uri = names.declare_table(("db", "t")).uri
    lance_spark.write(ROWS, uri)

    def fault_of(request: Request) -> Fault | None:
        if request.method == "DELETE":
            return Fault(status=502)
        return Fault(status=404, body="<html>not found</html>") if place.server.asked("DELETE") else None

    monkeypatch.setattr(place.server, "fault_of", fault_of)
    with pytest.raises(StorageError, match="whether the request was carried out is not known"):
        names.drop_table(("db", "t"), purge=True)
    monkeypatch.undo()
    assert names.table_exists(("db", "t"))
    assert lance.dataset(uri).count_rows() == 3


def test_a_table_of_somebody_else_is_not_taken_when_the_answer_is_lost(place: Opened) -> None:
    names = place.ours()
    names.create_namespace(("db",))
    place.theirs().ask("declare_table", "db", "t", location=f"{place.root}/mine")
    place.server.order("POST", "tables", Fault(status=500))
    with pytest.raises(AlreadyExistsError, match="t exists in"):
        names.declare_table(("db", "t"))
    assert names.table_location(("db", "t")).uri.removeprefix("file://") == f"{place.root}/mine"


def test_a_table_of_another_writer_at_the_same_place_is_not_taken(place: Opened) -> None:
    """Taking it would end in the removal of its name, because its place is not free any more."""
    names = place.ours()
    names.create_namespace(("db",))
    first = names.declare_table(("db", "t"))
    lance_spark.write(ROWS, first.uri)
    place.server.order("POST", "tables", Fault(status=500))
    with pytest.raises(AlreadyExistsError, match="t exists in"):
        names.declare_table(("db", "t"))
    assert place_of(names.table_location(("db", "t")).uri) == place_of(first.uri)
    assert not {name for name in names.table_location(("db", "t")).properties if name.startswith("lance_spark")}


def test_all_pages_are_read(place: Opened) -> None:
    names = place.ours()
    for name in ("c", "a", "db", "b"):
        names.create_namespace((name,))
    for name in ("t3", "t1", "t2"):
        names.declare_table(("db", name))
    place.server.page_size = 1
    assert names.list_namespaces() == ["a", "b", "c", "db"]
    assert names.list_tables(("db",)) == ["t1", "t2", "t3"]
    with pytest.raises(NotEmptyError):
        names.drop_namespace(("db",))
    names.drop_namespace(("db",), cascade=True)
    assert names.list_namespaces() == ["a", "b", "c"]


def test_the_place_of_tables_may_be_a_property_of_the_namespace(place: Opened, tmp_path: Path) -> None:
    names = place.ours(settings={})
    names.create_namespace(("nowhere",))
    with pytest.raises(InvalidInputError, match="set root of the catalog"):
        names.declare_table(("nowhere", "t"))
    names.create_namespace(("db",), {"location": f"{tmp_path}/own/"})
    assert names.declare_table(("db", "t")).uri == f"{tmp_path}/own/t.lance"
    names.create_namespace(("bad",), {"location": "own"})
    with pytest.raises(StorageError, match=r"says that .*bad is at 'own'"):
        names.declare_table(("bad", "t"))


def test_first_level_by_name_by_parent_or_by_setting(place: Opened) -> None:
    word = "warehouse" if place.kind == "iceberg" else "catalog"
    by_setting = place.ours(settings={"root": place.root, word: place.level}, parent=())
    by_setting.create_namespace(("db",))
    by_name = place.ours(parent=())
    entry = by_name.declare_table((place.level, "db", "t"))
    assert by_setting.list_tables(("db",)) == ["t"] == place.ours().list_tables(("db",))
    assert by_name.list_namespaces((place.level,)) == ["db"]
    assert by_name.namespace_exists((place.level,))
    assert not by_name.namespace_exists(("other",))
    assert by_name.list_tables((place.level,)) == [] == by_name.list_tables()
    assert not by_name.table_exists((place.level, "t"))
    assert entry.uri == f"{place.root}/{place.level}/db/t"
    with pytest.raises(InvalidInputError):
        by_name.declare_table((place.level, "t"))


def test_settings_may_have_the_name_of_the_catalog_before_them(place: Opened) -> None:
    prefix = "" if place.kind == "iceberg" else f"{place.kind}."
    prefixed = {f"{prefix}endpoint": place.server.uri, f"{prefix}root": place.root}
    names = CatalogPlace(impl=place.kind, settings=prefixed, parent=(place.level,)).open()
    names.create_namespace(("db",))
    assert names.declare_table(("db", "t")).uri == f"{place.root}/{place.level}/db/t"
    assert check_kind(place.kind.upper()) == place.kind


def test_renaming_is_refused_where_the_catalog_has_none(place: Opened) -> None:
    names = place.ours()
    names.create_namespace(("db",))
    names.declare_table(("db", "t"))
    if place.kind == "iceberg":
        names.rename_table(("db", "t"), ("db", "u"))
        assert names.list_tables(("db",)) == ["u"]
        return
    with pytest.raises(UnsupportedFeatureError, match="register its location under the new name"):
        names.rename_table(("db", "t"), ("db", "u"))
    assert names.list_tables(("db",)) == ["t"]
