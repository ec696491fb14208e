"""Names that differ in case only: found where exactly one does, and not made where the caller says so."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import lance
import pyarrow as pa
import pytest

from lance_spark.errors import AlreadyExistsError, InvalidInputError
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.spark.connector.catalog.resolve import TableName, find
from lance_spark.spark.connector.channel.handles import CatalogSettings


@pytest.fixture
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("names"))


def test_spelling_of_tables_and_namespaces(root: str) -> None:
    names = DirectoryNamespace(root)
    for path in (("Shop",), ("Shop", "Inner"), ("other",), ("OTHER",)):
        names.create_namespace(path)
    for table in (("Shop", "Inner", "Orders"), ("Shop", "t"), ("Shop", "T"), ("other", "x"), ("OTHER", "x"), ("Top",)):
        names.declare_table(table)
    lance.write_dataset(pa.table({"a": [1]}), f"{root}/Listed.lance")
    assert names.spelling(("shop", "INNER", "orders"), is_table=True) == ("Shop", "Inner", "Orders")
    assert names.spelling(("shop", "inner"), is_table=False) == ("Shop", "Inner")
    assert names.spelling(("shop", "inner"), is_table=True) is None
    assert names.spelling(("shop", "T"), is_table=True) == ("Shop", "T")
    assert names.spelling(("LISTED",), is_table=True) == ("Listed",)
    assert names.spelling(("top",), is_table=True) == ("Top",)
    assert names.spelling(("OTHER", "X"), is_table=True) == ("OTHER", "x")
    assert names.spelling(("nowhere", "x"), is_table=True) is None
    assert names.spelling(("a$b",), is_table=True) is None
    with pytest.raises(InvalidInputError, match=r"Other\.X may be OTHER and other"):
        names.spelling(("Other", "X"), is_table=True)


def test_names_are_distinct_when_folded_where_the_caller_says_so(root: str) -> None:
    names = DirectoryNamespace(root, distinct_when_folded=True)
    names.create_namespace(("ns",))
    names.declare_table(("ns", "t"))
    lance.write_dataset(pa.table({"a": [1]}), f"{root}/listed.lance")
    for make in (
        lambda: names.create_namespace(("NS",)),
        lambda: names.declare_table(("ns", "T")),
        lambda: names.declare_table(("Listed",)),
        lambda: names.rename_table(("listed",), ("ns", "T")),
        lambda: names.register_table(("ns", "T"), "listed.lance"),
    ):
        with pytest.raises(AlreadyExistsError, match="differs in case only"):
            make()
    names.rename_table(("ns", "t"), ("ns", "T"))
    names.rename_table(("listed",), ("LISTED",))
    assert (names.list_tables(("ns",)), names.list_tables()) == (["T"], ["LISTED"])
    DirectoryNamespace(root).declare_table(("ns", "t"))
    assert names.list_tables(("ns",)) == ["T", "t"]


@pytest.mark.parametrize("namespace", [(), ("ns",)])
def test_one_of_many_writers_makes_a_folded_name(root: str, namespace: tuple[str, ...]) -> None:
    if namespace:
        DirectoryNamespace(root).create_namespace(namespace)

    def declare(name: str) -> bool:
        try:
            DirectoryNamespace(root, distinct_when_folded=True).declare_table((*namespace, name))
        except AlreadyExistsError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(declare, ["name", "Name", "NAME", "nAme"])) == 1


def test_a_name_as_it_is_written_needs_no_listing(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = DirectoryNamespace(root)
    names.create_namespace(("ns",))
    for number in range(50):
        names.declare_table(("ns", f"Table{number}"))
    asked: list[tuple[str, ...]] = []
    spelling = DirectoryNamespace.spelling

    def counted(self: DirectoryNamespace, identifier: tuple[str, ...], *, is_table: bool) -> tuple[str, ...] | None:
        asked.append(identifier)
        return spelling(self, identifier, is_table=is_table)

    monkeypatch.setattr(DirectoryNamespace, "spelling", counted)
    catalog = CatalogSettings("lance", {"root": root}, case_sensitive=False)
    found = find(TableName(catalog, ("ns",), "Table7"))
    assert (found is not None and found.name, asked) == ("lance.ns.Table7", [])
    found = find(TableName(catalog, ("NS",), "TABLE7"))
    assert (found is not None and found.name, asked) == ("lance.ns.Table7", [("NS", "TABLE7")])
    exact = CatalogSettings("lance", {"root": root}, case_sensitive=True)
    assert find(TableName(exact, ("NS",), "TABLE7")) is None
    assert len(asked) == 1
