"""Views in the catalog of a directory, beside the reference library, which sees an empty namespace in their place."""

from __future__ import annotations

import base64
import json
import pickle
from pathlib import Path

import lance_namespace as spec
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace as ReferenceNamespace

from lance_spark.errors import (
    AlreadyExistsError,
    CorruptFileError,
    InvalidInputError,
    LanceError,
    NotEmptyError,
    NotFoundError,
    UnsupportedFeatureError,
)
from lance_spark.namespace.directory.catalog_rows import NAMESPACE, CatalogEntry
from lance_spark.namespace.directory.catalog_table import CatalogTable
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.namespace.served.interface import InterfaceNamespace
from lance_spark.namespace.view_texts import MAX_DEFINITION
from lance_spark.spark.connector.catalog.resolve import TableName
from lance_spark.spark.connector.catalog.view_definition import ViewDefinition
from lance_spark.spark.connector.catalog.views import ViewRequest, create_view, refuse_view, view
from lance_spark.spark.connector.channel.handles import CatalogSettings
from lance_spark.spark.connector.channel.registry import Call
from tests.support.threads import all_at_once

TEXT = '{"format":1,"query":"SELECT \\"é\\"","columns":"{}"}'
V = ("db", "v")


class Reference:
    """The reference library's namespace, with plain arguments."""

    def __init__(self, root: Path) -> None:
        self._names = ReferenceNamespace(root=str(root))

    def create_namespace(self, *path: str) -> None:
        self._names.create_namespace(spec.CreateNamespaceRequest(id=list(path)))

    def drop_namespace(self, *path: str) -> None:
        self._names.drop_namespace(spec.DropNamespaceRequest(id=list(path)))

    def create_table(self, *identifier: str) -> None:
        sink = pa.BufferOutputStream()
        rows = pa.table({"a": [1]})
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        self._names.create_table(spec.CreateTableRequest(id=list(identifier)), sink.getvalue().to_pybytes())

    def tables(self, *path: str) -> list[str]:
        return sorted(self._names.list_tables(spec.ListTablesRequest(id=list(path))).tables)

    def namespaces(self, *path: str) -> list[str]:
        return sorted(self._names.list_namespaces(spec.ListNamespacesRequest(id=list(path))).namespaces)


@pytest.fixture
def names(tmp_path: Path) -> DirectoryNamespace:
    names = DirectoryNamespace(tmp_path)
    names.create_namespace(("db",))
    names.create_view(V, TEXT)
    return names


@pytest.fixture
def reference(names: DirectoryNamespace, tmp_path: Path) -> Reference:
    return Reference(tmp_path)


def test_a_view_is_no_namespace_and_no_table(names: DirectoryNamespace) -> None:
    assert (names.list_views(("db",)), names.view(V), names.view_exists(V)) == (["v"], TEXT, True)
    assert names.list_views() == names.list_namespaces(("db",)) == names.list_tables(("db",)) == []
    assert (names.namespace_exists(V), names.table_exists(V)) == (False, False)
    for asked in (names.namespace_properties, names.list_namespaces, names.list_tables, names.list_views):
        with pytest.raises(NotFoundError, match=r"no namespace db\.v"):
            asked(V)
    with pytest.raises(NotFoundError, match=r"no namespace db\.v"):
        names.set_namespace_properties(V, {"k": "v"})
    with pytest.raises(NotFoundError, match=r"no namespace db\.v"):
        names.drop_namespace(V)
    for made in (names.declare_table, names.create_namespace):
        with pytest.raises(NotFoundError, match=r"no namespace db\.v"):
            made((*V, "x"))
    names.replace_view(V, '{"format":2}')
    assert names.view(V) == '{"format":2}'
    names.drop_view(V)
    for gone in (names.view, names.drop_view):
        with pytest.raises(NotFoundError, match=r"no view db\.v"):
            gone(V)
    with pytest.raises(NotFoundError, match=r"no view db\.v"):
        names.replace_view(V, TEXT)


def test_neither_replaces_the_other(names: DirectoryNamespace, tmp_path: Path) -> None:
    names.declare_table(("db", "t"))
    for made in (names.declare_table, names.create_namespace):
        with pytest.raises(AlreadyExistsError, match=r"db\.v exists already; it is a view; DROP VIEW"):
            made(V)
    with pytest.raises(AlreadyExistsError, match="it is a view"):
        names.create_namespace(V, exist_ok=True)
    with pytest.raises(AlreadyExistsError, match="it is a view"):
        names.rename_table(("db", "t"), V)
    with pytest.raises(AlreadyExistsError, match="it is a table"):
        names.create_view(("db", "t"), TEXT)
    with pytest.raises(AlreadyExistsError, match="it is a view"):
        names.create_view(V, TEXT)
    with pytest.raises(AlreadyExistsError, match="it is a table"):
        names.rename_view(V, ("db", "t"))
    for changed in (names.drop_view, lambda name: names.replace_view(name, TEXT)):
        with pytest.raises(NotFoundError, match=r"no view db\.t"):
            changed(("db", "t"))
    with pytest.raises(NotFoundError, match="no view db"):
        names.drop_view(("db",))
    with pytest.raises(NotFoundError, match=r"no table db\.v"):
        names.drop_table(V, purge=True)
    assert (names.list_tables(("db",)), names.list_views(("db",))) == (["t"], ["v"])


def test_a_view_is_renamed_within_namespaces(names: DirectoryNamespace) -> None:
    names.create_namespace(("other",))
    names.rename_view(V, ("other", "w"))
    assert (names.list_views(("db",)), names.view(("other", "w"))) == ([], TEXT)
    with pytest.raises(NotFoundError, match="no namespace missing"):
        names.rename_view(("other", "w"), ("missing", "w"))
    with pytest.raises(NotFoundError, match="no namespace missing"):
        names.create_view(("missing", "w"), TEXT)
    for name in (("w",), ("db", "a$b"), ("db", "")):
        with pytest.raises(InvalidInputError):
            names.create_view(name, TEXT)
        with pytest.raises(InvalidInputError):
            names.rename_view(("other", "w"), name)


def test_a_namespace_with_a_view_is_not_empty(names: DirectoryNamespace) -> None:
    with pytest.raises(NotEmptyError, match=r"db\$v"):
        names.drop_namespace(("db",))
    names.drop_namespace(("db",), cascade=True, purge=True)
    assert (names.view_exists(V), names.list_namespaces()) == (False, [])


def test_the_property_is_not_for_users(names: DirectoryNamespace) -> None:
    own = {"lance_spark.view": TEXT}
    for refused in (
        lambda: names.create_namespace(("x",), own),
        lambda: names.set_namespace_properties(("db",), own),
        lambda: names.set_namespace_properties(("db",), {"lance_spark.view": None}),
    ):
        with pytest.raises(InvalidInputError, match=r"lance_spark\.view"):
            refused()
    assert names.list_namespaces() == ["db"]


def test_names_that_differ_in_case(tmp_path: Path) -> None:
    names = DirectoryNamespace(tmp_path)
    for namespace in (("Db",), ("two",), ("Two",)):
        names.create_namespace(namespace)
    names.create_view(("Db", "View"), TEXT)
    names.declare_table(("Db", "Table"))
    assert names.view_spelling(("dB", "vIEW")) == ("Db", "View")
    assert names.spelling(("dB", "vIEW"), is_table=True) is None
    assert names.spelling(("dB", "vIEW"), is_table=False) is None
    assert names.spelling(("dB", "tABLE"), is_table=True) == ("Db", "Table")
    assert names.view_spelling(("dB", "tABLE")) is None
    names.create_view(("two", "v"), TEXT)
    names.create_view(("two", "V2"), TEXT)
    names.declare_table(("two", "v2"))
    assert names.view_spelling(("two", "v2")) is None, "an exact match wins, whatever it is"
    assert names.spelling(("two", "V2"), is_table=True) is None
    names.create_view(("two", "tab"), TEXT)
    names.declare_table(("two", "Tab"))
    with pytest.raises(InvalidInputError, match=r"two\.Tab and two\.tab"):
        names.spelling(("two", "TAB"), is_table=True)
    with pytest.raises(InvalidInputError, match="Two and two"):
        names.view_spelling(("TWO", "v"))
    distinct = DirectoryNamespace(tmp_path, distinct_when_folded=True)
    with pytest.raises(AlreadyExistsError, match="differs in case only"):
        distinct.declare_table(("Db", "VIEW"))
    with pytest.raises(AlreadyExistsError, match="differs in case only"):
        distinct.create_view(("Db", "TABLE"), TEXT)
    distinct.rename_view(("Db", "View"), ("Db", "VIEW"))
    assert distinct.list_views(("Db",)) == ["VIEW"]


def test_the_reference_library_keeps_a_view(names: DirectoryNamespace, reference: Reference) -> None:
    reference.create_namespace("later")
    reference.create_table("db", "t")
    assert (reference.tables("db"), reference.tables("db", "v")) == (["t"], [])
    assert reference.namespaces("db") == ["v"]
    assert names.view(V) == TEXT
    assert (names.list_tables(("db",)), names.list_views(("db",))) == (["t"], ["v"])
    for guarded in (lambda: reference.create_namespace("db", "v"), lambda: reference.drop_namespace("db")):
        with pytest.raises(Exception, match=r"exist|not empty|Cannot drop"):
            guarded()
    names.rename_view(V, ("later", "w"))
    assert (reference.namespaces("db"), reference.namespaces("later")) == ([], ["w"])


def test_what_another_library_has_put_into_a_view_is_not_lost(names: DirectoryNamespace, reference: Reference) -> None:
    reference.create_table("db", "v", "inside")
    assert names.view(V) == TEXT
    for refused in (lambda: names.drop_view(V), lambda: names.rename_view(V, ("db", "w"))):
        with pytest.raises(NotEmptyError, match=r"db\$v\$inside"):
            refused()
    assert names.list_tables(V) == ["inside"]
    names.drop_table((*V, "inside"), purge=True)
    names.drop_view(V)


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ('{"lance_spark.view": 7}', "no JSON object of strings"),
        ('{"lance_spark.view": "{"', "no JSON"),
        (json.dumps({"lance_spark.view": "{"}), "Expecting"),
        (json.dumps({"lance_spark.view": "[1]"}), "no JSON object"),
        (json.dumps({"lance_spark.view": "[" * 100_000}), "recursion"),
        (json.dumps({"lance_spark.view": "x" * (MAX_DEFINITION + 1)}), "more than"),
    ],
)
def test_an_unreadable_definition(tmp_path: Path, metadata: str, why: str) -> None:
    rows = [CatalogEntry("db", NAMESPACE), CatalogEntry("db$v", NAMESPACE, None, metadata)]
    CatalogTable(str(tmp_path)).change(lambda before: before.added(rows))
    names = DirectoryNamespace(tmp_path)
    with pytest.raises(CorruptFileError, match=rf"view db\.v .*{why}"):
        names.view(V)
    assert (names.list_views(("db",)), names.list_namespaces(("db",))) == (["v"], [])
    names.replace_view(V, TEXT)
    assert names.view(V) == TEXT


def test_a_definition_is_bounded_and_other_properties_stay(names: DirectoryNamespace, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"db\.v has more than 1048576 bytes"):
        names.replace_view(V, "é" * (MAX_DEFINITION // 2 + 1))
    with pytest.raises(InvalidInputError, match="not Unicode"):
        names.replace_view(V, "\ud800")
    other = CatalogEntry("db$w", NAMESPACE, None, json.dumps({"k": "of others", "lance_spark.view": TEXT}))
    CatalogTable(str(tmp_path)).change(lambda rows: rows.added([other]))
    names.replace_view(("db", "w"), "{}")
    table = CatalogTable(str(tmp_path)).load().rows().to_pylist()
    assert json.loads(next(row["metadata"] for row in table if row["object_id"] == "db$w")) == {
        "k": "of others",
        "lance_spark.view": "{}",
    }


def test_one_of_a_view_and_a_table_wins_a_name(tmp_path: Path) -> None:
    DirectoryNamespace(tmp_path).create_namespace(("db",))

    def work(number: int) -> str:
        names = DirectoryNamespace(tmp_path)
        try:
            if number % 2:
                names.create_view(V, TEXT)
            else:
                names.declare_table(V)
        except LanceError as error:
            return type(error).__name__
        return "made"

    outcomes = all_at_once(work, 6)
    assert sorted(outcomes) == ["AlreadyExistsError"] * 5 + ["made"]
    names = DirectoryNamespace(tmp_path)
    assert names.table_exists(V) != names.view_exists(V)
    assert len(names.list_tables(("db",)) + names.list_views(("db",))) == 1


def test_a_catalog_without_views_says_so(tmp_path: Path) -> None:
    names = InterfaceNamespace("lance.namespace.DirectoryNamespace", {"root": str(tmp_path)})
    with pytest.raises(UnsupportedFeatureError, match=r"lance\.namespace\.DirectoryNamespace.*impl = dir"):
        names.create_view(V, TEXT)
    for missing in (names.view, names.drop_view, lambda name: names.rename_view(name, ("db", "w"))):
        with pytest.raises(NotFoundError, match=r"no view db\.v; .* keeps no views"):
            missing(V)
    assert (names.list_views(("db",)), names.view_exists(V), names.view_spelling(V)) == ([], False, None)


def test_no_request_for_views_to_a_catalog_without(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    for name in ("list_tables", "list_namespaces", "table_location", "table_exists", "namespace_exists"):
        monkeypatch.setattr(InterfaceNamespace, name, lambda *given, name=name: asked.append(name))
    settings = {"impl": "lance.namespace.DirectoryNamespace", "root": "/nowhere"}
    request = ViewRequest(CatalogSettings("lance", settings, case_sensitive=False), ("db",), "v")
    assert view(request, Call()).view is None
    assert asked == []


class _Opens:
    """An object that opens a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, ...]:
        return open, (self._path, "w")


def test_definitions_of_other_formats(names: DirectoryNamespace, tmp_path: Path) -> None:
    catalog = CatalogSettings("lance", {"root": str(tmp_path)}, case_sensitive=False)
    request = ViewRequest(catalog, ("DB",), "V")
    columns = '{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{}}]}'
    good = {"format": 1, "query": "SELECT 1 AS a", "columns": columns, "query_columns": ["a"]}
    names.replace_view(V, json.dumps(good))
    found = view(request, Call()).view
    assert found is not None
    assert (found.query, found.query_columns) == ("SELECT 1 AS a", ("a",))
    names.replace_view(V, json.dumps({**good, "format": 2}))
    with pytest.raises(UnsupportedFeatureError, match=r"view lance\.db\.v is stored in format 2"):
        view(request, Call())
    marker = tmp_path / "unpickled"
    pickled = base64.b64encode(pickle.dumps(_Opens(str(marker)))).decode()
    udt = {"type": "udt", "pyClass": "__main__.X", "serializedClass": pickled, "sqlType": "long"}
    for wrapped in (udt, {"type": "array", "elementType": udt, "containsNull": True}):
        field = {"name": "a", "type": wrapped, "nullable": True, "metadata": {}}
        names.replace_view(V, json.dumps({**good, "columns": json.dumps({"type": "struct", "fields": [field]})}))
        with pytest.raises(UnsupportedFeatureError, match="user-defined types"):
            view(request, Call())
    assert not marker.exists()
    wrong: list[dict[str, object]] = [
        {"query": 1},
        {"query": None},
        {"columns": "{"},
        {"columns": '{"type":"struct"}'},
        {"columns": '"long"'},
        {"columns": '{"type":"struct","fields":[{"name":"a","type":"nonsense","nullable":true}]}'},
        {"query_columns": ["a", "b"]},
        {"sql_configs": {"a": 1}},
        {"current_namespace": "db"},
    ]
    for part in wrong:
        names.replace_view(V, json.dumps({**good, **part}))
        with pytest.raises(CorruptFileError, match=r"view lance\.db\.v is unreadable"):
            view(request, Call())


def test_views_of_kinds_that_spark_does_not_maintain(tmp_path: Path) -> None:
    names = DirectoryNamespace(tmp_path)
    names.create_namespace(("db",))
    catalog = CatalogSettings("lance", {"root": str(tmp_path)}, case_sensitive=False)
    for definition, message in (
        (ViewDefinition("SELECT 1", "{}", properties={"table_type": "METRIC_VIEW"}), "no METRIC_VIEW"),
        (ViewDefinition("SELECT 1", "{}", schema_mode="EVOLUTION"), "WITH SCHEMA EVOLUTION"),
        (ViewDefinition("SELECT 1", "{}", schema_mode="TYPE EVOLUTION"), "WITH SCHEMA TYPE EVOLUTION"),
        (ViewDefinition("SELECT 1", '{"fields":[{"type":{"type":"udt"}}]}'), "user-defined types"),
    ):
        with pytest.raises(UnsupportedFeatureError, match=message):
            create_view(ViewRequest(catalog, ("db",), "v", view=definition), Call())
    assert names.list_views(("db",)) == []


@pytest.mark.parametrize("name", ["v", "V"])
def test_statements_for_tables_say_that_it_is_a_view(names: DirectoryNamespace, tmp_path: Path, name: str) -> None:
    catalog = CatalogSettings("lance", {"root": str(tmp_path)}, case_sensitive=False)
    names.replace_view(V, "[")
    table = TableName(catalog, ("db",), name)
    refuse_view(table, is_known=True)
    refuse_view(TableName(catalog, ("db",), "other"), writes="INSERT", is_known=True)
    with pytest.raises(InvalidInputError, match=r"lance\.db\.v is a view, which takes no INSERT"):
        refuse_view(table, writes="INSERT", is_known=True)
    with pytest.raises(InvalidInputError, match=r"lance\.db\.v is a view, which has no versions"):
        refuse_view(table, is_of_version=True, is_known=True)
    with pytest.raises(UnsupportedFeatureError, match=r"lance\.db\.v is a view, which Spark reads from 4\.3 on"):
        refuse_view(table, is_known=False)
