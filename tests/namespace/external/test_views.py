"""Views in Glue, Hive, Iceberg REST and Polaris, with another tool of each catalog as the other side."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import (
    AlreadyExistsError,
    CommitConflictError,
    CorruptFileError,
    InvalidInputError,
    NotEmptyError,
    NotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_spark.namespace.base import Namespace
from tests.support.catalog_servers import LOST, Fault
from tests.support.external_catalogs import VIEW_KINDS, ExternalCatalog, OtherTool, external_catalog
from tests.support.glue_proxy import GlueProxy, glue_proxy
from tests.support.moto import S3Bucket
from tests.support.threads import all_at_once

QUERY = "SELECT id, 'Zürich 🚲' AS s FROM other.db.t"
ESCAPED = r"SELECT id, 'Z\u00fcrich \ud83d\udeb2' AS s FROM other.db.t"
"""The same for Spark, in letters that every metastore keeps."""

TYPES = {
    "glue": [("id", "bigint"), ("s", "string"), ("d", "decimal(10,2)"), ("l", "array<struct<a:int>>")],
    "iceberg": [("id", "long"), ("s", "string"), ("d", "decimal(10, 2)"), ("l", "list<struct<6: a: optional int>>")],
}


def definition(query: str = QUERY, **fields: object) -> str:
    """A definition as the connector writes it."""

    def column(name: str, kind: object) -> dict[str, object]:
        return {"name": name, "type": kind, "nullable": True, "metadata": {}}

    inner = {"type": "struct", "fields": [column("a", "integer")]}
    array = {"type": "array", "elementType": inner, "containsNull": True}
    columns = [column("id", "long"), column("s", "string"), column("d", "decimal(10,2)"), column("l", array)]
    told = {
        "format": 1,
        "query": query,
        "columns": json.dumps({"type": "struct", "fields": columns}),
        "current_catalog": "other",
        "current_namespace": ["db"],
        "sql_configs": {"spark.sql.ansi.enabled": "true"},
        **fields,
    }
    return json.dumps(told, ensure_ascii=False)


@pytest.fixture(scope="module")
def proxy(s3_bucket: S3Bucket) -> Iterator[GlueProxy]:
    with glue_proxy(s3_bucket.endpoint) as opened:
        yield opened


@pytest.fixture(params=VIEW_KINDS)
def catalog(request: pytest.FixtureRequest, proxy: GlueProxy, tmp_path: Path) -> Iterator[ExternalCatalog]:
    proxy.reset()
    with external_catalog(request.param, str(tmp_path / "root"), proxy.endpoint) as opened:
        opened.ours().create_namespace((opened.database,))
        yield opened


@pytest.fixture
def names(catalog: ExternalCatalog) -> Namespace:
    return catalog.ours()


@pytest.fixture
def other(catalog: ExternalCatalog, names: Namespace) -> OtherTool:
    return catalog.theirs()


def same(one: str, two: str) -> bool:
    return bool(json.loads(one) == json.loads(two))


def lose(catalog: ExternalCatalog, proxy: GlueProxy, what: str, *, carried_out: bool = True) -> None:
    """Lets the next change of a view go without a reply."""
    if catalog.kind == "glue":
        operation = {"create": "CreateTable", "replace": "UpdateTable", "drop": "DeleteTable"}[what]
        proxy.faults[operation] = ["lose" if carried_out else "fail"] * (1 if carried_out else 5)
    elif catalog.kind.startswith("hive"):
        method = {"create": "create_table", "drop": "drop_table"}.get(what, "alter_table_with_environment_context")
        catalog.server.faults[method] = ["lose" if carried_out else "drop"]
    else:
        method = "DELETE" if what == "drop" else "POST"
        catalog.server.order(method, "views", LOST if carried_out else Fault())


def test_life_of_a_view(catalog: ExternalCatalog, names: Namespace, other: OtherTool) -> None:
    db = catalog.database
    v = (db, "v")
    names.create_view(v, definition())
    assert same(names.view(v), definition())
    assert (names.list_views((db,)), names.list_tables((db,)), names.list_namespaces((db,))) == (["v"], [], [])
    assert other.views() == ["v"]
    assert other.query("v") == (ESCAPED if catalog.kind.startswith("hive") else QUERY)
    assert other.columns("v") == TYPES.get(catalog.kind, TYPES["iceberg" if catalog.kind == "polaris" else "glue"])
    names.replace_view(v, definition("SELECT 2"))
    assert same(names.view(v), definition("SELECT 2"))
    assert other.query("v") == "SELECT 2"
    narrow = json.dumps({"type": "struct", "fields": [{"name": "n", "type": "void", "metadata": {}, "nullable": True}]})
    names.replace_view(v, definition("SELECT null AS n", columns=narrow))
    assert other.columns("v") == [("n", "string")]
    names.replace_view(v, definition("SELECT 3"))
    names.create_namespace((f"{db}_2",))
    names.rename_view(v, (f"{db}_2", "w"))
    assert not names.view_exists(v)
    assert same(names.view((f"{db}_2", "w")), definition("SELECT 3"))
    assert (other.views(), names.list_views((f"{db}_2",))) == ([], ["w"])
    names.drop_view((f"{db}_2", "w"))
    assert not names.view_exists((f"{db}_2", "w"))
    for missing in (v, (db, ""), (f"{db}_3", "v")):
        with pytest.raises(NotFoundError):
            names.drop_view(missing)
        with pytest.raises(NotFoundError):
            names.replace_view(missing, definition())
        with pytest.raises(NotFoundError):
            names.view(missing)
    with pytest.raises(NotFoundError):
        names.create_view((f"{db}_3", "v"), definition())
    with pytest.raises(InvalidInputError, match="needs a namespace"):
        names.create_view(("v",), definition())


def test_another_tool_drops_a_view(catalog: ExternalCatalog, names: Namespace, other: OtherTool) -> None:
    names.create_view((catalog.database, "v"), definition())
    other.drop("v")
    assert not names.view_exists((catalog.database, "v"))
    assert names.list_views((catalog.database,)) == []


def test_neither_replaces_the_other(catalog: ExternalCatalog, names: Namespace) -> None:
    db = catalog.database
    view, table = (db, "v"), (db, "t")
    names.create_view(view, definition())
    uri = names.declare_table(table).uri
    lance_spark.write(pa.table({"a": [1]}), uri)
    for taken in (view, table):
        with pytest.raises(AlreadyExistsError):
            names.create_view(taken, definition("SELECT 2"))
        with pytest.raises(AlreadyExistsError):
            names.declare_table(taken)
        with pytest.raises(AlreadyExistsError):
            names.register_table(taken, uri)
    with pytest.raises(AlreadyExistsError):
        names.rename_view(view, table)
    for refused in (names.drop_view, lambda name: names.replace_view(name, definition()), names.view):
        with pytest.raises(NotFoundError):
            refused(table)
    for purge in (False, True):
        with pytest.raises(NotFoundError):
            names.drop_table(view, purge=purge)
    with pytest.raises(NotFoundError):
        names.table_location(view)
    with pytest.raises((NotFoundError, UnsupportedFeatureError)):
        names.rename_table(view, (db, "x"))
    assert (names.table_exists(view), names.view_exists(table)) == (False, False)
    assert same(names.view(view), definition())
    assert lance.dataset(uri).count_rows() == 1


def test_views_of_others_are_left_alone(catalog: ExternalCatalog, names: Namespace, other: OtherTool) -> None:
    db = catalog.database
    other.make("theirs", "SELECT 1")
    names.create_view((db, "changed"), definition())
    other.change("changed", "SELECT 9")
    for name in ("theirs", "changed"):
        with pytest.raises(NotFoundError):
            names.view((db, name))
        with pytest.raises(NotFoundError, match="is no view of Lance"):
            names.replace_view((db, name), definition())
        with pytest.raises(NotFoundError, match="is no view of Lance"):
            names.drop_view((db, name))
        with pytest.raises(NotFoundError, match="is no view of Lance"):
            names.rename_view((db, name), (db, "new"))
        with pytest.raises(AlreadyExistsError):
            names.create_view((db, name), definition())
        with pytest.raises(AlreadyExistsError):
            names.declare_table((db, name))
    assert (names.list_views((db,)), names.list_tables((db,))) == ([], [])
    with pytest.raises(NotEmptyError):
        names.drop_namespace((db,), cascade=True)
    assert other.views() == ["changed", "theirs"]
    assert (other.query("theirs"), other.query("changed")) == ("SELECT 1", "SELECT 9")


def test_cascade_drops_ours(catalog: ExternalCatalog, names: Namespace, other: OtherTool) -> None:
    db = catalog.database
    names.create_view((db, "v"), definition())
    names.declare_table((db, "t"))
    other.make("theirs", "SELECT 1")
    with pytest.raises(NotEmptyError):
        names.drop_namespace((db,), cascade=True)
    assert (names.list_views((db,)), names.list_tables((db,))) == (["v"], ["t"])
    other.drop("theirs")
    with pytest.raises(NotEmptyError):
        names.drop_namespace((db,))
    names.drop_namespace((db,), cascade=True)
    assert not names.namespace_exists((db,))


def test_what_another_tool_adds_stays(catalog: ExternalCatalog, names: Namespace, other: OtherTool) -> None:
    v = (catalog.database, "v")
    names.create_view(v, definition())
    other.set_property("v", "team", "x")
    names.replace_view(v, definition("SELECT 2"))
    assert other.properties("v")["team"] == "x"
    assert same(names.view(v), definition("SELECT 2"))


def test_unreadable_definitions(catalog: ExternalCatalog, names: Namespace, other: OtherTool) -> None:
    v = (catalog.database, "v")
    names.create_view(v, definition())
    is_split = catalog.kind.startswith("hive")
    other.set_property("v", "lance_spark.view.numParts" if is_split else "lance_spark.view", "9" if is_split else "[")
    with pytest.raises(CorruptFileError, match="is unreadable"):
        names.view(v)
    assert (names.view_exists(v), names.list_views(v[:1])) == (True, ["v"])
    names.replace_view(v, definition())
    assert same(names.view(v), definition())


def test_large_definitions(catalog: ExternalCatalog, names: Namespace) -> None:
    v = (catalog.database, "v")
    names.create_view(v, definition(query=f"SELECT '{'é' * 40_000}'"))
    assert same(names.view(v), definition(query=f"SELECT '{'é' * 40_000}'"))
    names.replace_view(v, definition())
    assert same(names.view(v), definition())
    limit = 512_000 if catalog.kind == "glue" else 2**20
    for change in (names.create_view, names.replace_view):
        with pytest.raises(InvalidInputError, match=f"has more than {limit} bytes; put its constants into a table"):
            change(v, definition(sql_configs={"x": "y" * limit}))
    assert same(names.view(v), definition())


def test_queries_that_are_too_long_to_be_shown(catalog: ExternalCatalog, names: Namespace, other: OtherTool) -> None:
    v, long = (catalog.database, "v"), definition(query=f"SELECT '{'x' * 410_000}'")
    names.create_view(v, long)
    assert same(names.view(v), long)
    if catalog.kind in ("iceberg", "polaris"):
        assert other.query("v") == json.loads(long)["query"]
    else:  # Half of a query could be run.
        assert other.query("v").startswith("-- The query of this view is too long")
    other.change("v", "SELECT 1")
    assert not names.view_exists(v)


@pytest.mark.parametrize("carried_out", [True, False])
def test_lost_replies(
    catalog: ExternalCatalog,
    names: Namespace,
    proxy: GlueProxy,
    monkeypatch: pytest.MonkeyPatch,
    *,
    carried_out: bool,
) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _seconds: None)
    v, w = (catalog.database, "v"), (catalog.database, "w")

    def attempt(what: str, change: object, *arguments: object) -> None:
        lose(catalog, proxy, what, carried_out=carried_out)
        if carried_out:
            change(*arguments)  # type: ignore[operator]
            return
        with pytest.raises(StorageError):
            change(*arguments)  # type: ignore[operator]
        change(*arguments)  # type: ignore[operator]

    attempt("create", names.create_view, v, definition())
    assert same(names.view(v), definition())
    attempt("replace", names.replace_view, v, definition("SELECT 2"))
    assert same(names.view(v), definition("SELECT 2"))
    if catalog.kind != "glue":  # Its rename is a creation and a removal.
        attempt("rename", names.rename_view, v, w)
        attempt("rename", names.rename_view, w, v)
    attempt("drop", names.drop_view, v)
    assert not names.view_exists(v)


@pytest.mark.parametrize("catalog", [kind for kind in VIEW_KINDS if kind != "glue"], indirect=True)
def test_one_of_many_makes_a_view(catalog: ExternalCatalog, names: Namespace) -> None:
    """Not by moto, which looks for a name and adds it in two steps."""

    def work(number: int) -> str:
        try:
            names.create_view((catalog.database, "v"), definition(f"SELECT {number}"))
        except AlreadyExistsError:
            return ""
        return definition(f"SELECT {number}")

    [made] = [text for text in all_at_once(work, 4) if text]
    assert same(names.view((catalog.database, "v")), made)


def test_a_concurrent_change_is_not_overwritten(
    catalog: ExternalCatalog, names: Namespace, proxy: GlueProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer changes the view, or puts another one in its place, between our look and our request."""
    v, rival = (catalog.database, "v"), catalog.ours()
    names.create_view(v, definition())

    def replaced() -> None:
        if catalog.kind in ("iceberg", "polaris"):  # The server compares which view it is, and not the version.
            rival.drop_view(v)
            rival.create_view(v, definition("SELECT 'rival'"))
        else:
            rival.replace_view(v, definition("SELECT 'rival'"))

    if catalog.kind == "glue":
        replaced()
        before = proxy.sent("UpdateTable")
        proxy.faults["UpdateTable"] = ["conflict"]  # moto does not compare the version.
        with pytest.raises(CommitConflictError, match="run the statement again"):
            names.replace_view(v, definition("SELECT 2"))
        sent = [body for operation, body in proxy.requests if operation == "UpdateTable"]
        assert sent[before]["VersionId"] != sent[before - 1]["VersionId"]
    else:
        looked = type(names)._view  # type: ignore[attr-defined]
        times = iter([True])

        def view(self: object, identifier: tuple[str, ...]) -> object:
            opened = looked(self, identifier)
            if next(times, False):
                replaced()
            return opened

        monkeypatch.setattr(type(names), "_view", view)
        with pytest.raises(CommitConflictError, match="run the statement again"):
            names.replace_view(v, definition("SELECT 2"))
    assert same(names.view(v), definition("SELECT 'rival'"))


def test_case_of_names(catalog: ExternalCatalog, names: Namespace) -> None:
    db = catalog.database
    names.create_view((db, "Vv"), definition())
    folds = catalog.kind in ("glue", "hive2", "hive3")
    assert names.list_views((db,)) == ["vv" if folds else "Vv"]
    assert names.view_exists((db.upper(), "VV")) == folds
    assert names.view_spelling((db.upper(), "VV")) == (db, "vv" if folds else "Vv")
    assert names.view_spelling((db, "missing")) is None


@pytest.mark.parametrize("endpoints", [None, [], ["GET /v1/{prefix}/namespaces/{namespace}/views"]])
def test_iceberg_servers_without_views(tmp_path: Path, endpoints: list[str] | None) -> None:
    with external_catalog("iceberg", str(tmp_path), "") as catalog:
        catalog.server.endpoints = endpoints
        names = catalog.ours()
        names.create_namespace(("db",))
        assert not names.keeps_views
        assert (names.list_views(("db",)), names.view_exists(("db", "v"))) == ([], False)
        with pytest.raises(UnsupportedFeatureError, match=r"has no views in warehouse wh; make the view wh\.db\.v in"):
            names.create_view(("db", "v"), definition())
        assert not catalog.server.asked("POST", "views")
        names.drop_namespace(("db",), cascade=True)


def test_a_warehouse_that_is_missing_has_no_views(tmp_path: Path) -> None:
    with external_catalog("iceberg", str(tmp_path), "") as catalog:
        catalog.parent = ("nowhere",)
        names = catalog.ours()
        assert names.view_spelling(("db", "v")) is None
        assert not names.view_exists(("db", "v"))
        with pytest.raises(NotFoundError):
            names.create_view(("db", "v"), definition())


def test_metastores_that_do_not_compare(tmp_path: Path) -> None:
    """Releases before 2.3.10 ignore what we expect; all else is the same."""
    with external_catalog("hive2", str(tmp_path), "") as catalog:
        catalog.server.compares = False
        names = catalog.ours()
        names.create_namespace((catalog.database,))
        names.create_view((catalog.database, "v"), definition())
        names.replace_view((catalog.database, "v"), definition("SELECT 2"))
        assert same(names.view((catalog.database, "v")), definition("SELECT 2"))
