"""Catalogs in Python: folders, and the server of the reference library."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import lance.namespace
import pyarrow as pa
import pytest
from lance.namespace import RestAdapter
from lance_namespace_urllib3_client.models import ListTablesRequest

import lance_spark
from lance_spark.catalog import Catalog
from lance_spark.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LanceError,
    NotEmptyError,
    NotFoundError,
    UnsupportedFeatureError,
)

ROWS = pa.table({"id": [1, 2, 3], "city": ["Oslo", "Rome", "Oslo"]})
Way = Callable[[Path], Catalog]


@pytest.fixture(params=["dir", "rest"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Catalog]:
    if request.param == "dir":
        yield lance_spark.connect(tmp_path)
        return
    with RestAdapter("dir", {"root": str(tmp_path)}, host="127.0.0.1", port=0) as server:
        yield lance_spark.connect(f"http://127.0.0.1:{server.port}", impl="rest")


@pytest.fixture
def folder(tmp_path: Path) -> Catalog:
    return lance_spark.connect(tmp_path)


def names_of_the_reference(root: Path, *namespace: str) -> list[str]:
    listed = lance.namespace.DirectoryNamespace(root=str(root)).list_tables(ListTablesRequest(id=list(namespace)))
    return sorted(listed.tables)


@pytest.mark.parametrize("partition_by", [(), ("city", "bucket(4, id)")])
def test_tables_come_and_go(catalog: Catalog, tmp_path: Path, partition_by: tuple[str, ...]) -> None:
    catalog.create_namespace("shop", {"owner": "me"})
    assert catalog.namespace_properties("shop")["owner"] == "me"
    assert catalog.list_namespaces() == ["shop"]
    made = catalog.create_table("shop.orders", ROWS, partition_by=partition_by, properties={"mine": "1"})
    assert made.config == {"mine": "1"}
    assert catalog.list_tables("shop") == ["shop.orders"]
    assert catalog.list_tables(("shop",)) == [("shop", "orders")]
    assert names_of_the_reference(tmp_path, "shop") == ["orders"]
    with pytest.raises(AlreadyExistsError, match=r"there is a table shop\.orders"):
        catalog.create_table("shop.orders", ROWS, partition_by=partition_by)
    catalog.open_table("shop.orders").append(ROWS.slice(0, 1))
    assert catalog.open_table("shop.orders").count_rows() == 4
    assert catalog.open_table("shop.orders", version=made.version).to_table().sort_by("id").equals(ROWS)
    again = catalog.create_table("shop.orders", ROWS.slice(2), partition_by=partition_by, mode="overwrite")
    assert again.to_table().to_pydict() == {"id": [3], "city": ["Oslo"]}
    with pytest.raises(NotEmptyError):
        catalog.drop_namespace("shop")
    where = tmp_path / made.uri.removeprefix("file://") if not partition_by else Path(made.root.removeprefix("file://"))
    assert where.exists()
    catalog.drop_table("shop.orders", purge=True)
    assert not where.exists()
    assert not catalog.table_exists("shop.orders")
    catalog.drop_namespace("shop")
    assert catalog.list_namespaces() == []


def test_the_reference_reads_what_a_catalog_has_and_the_other_way(folder: Catalog, tmp_path: Path) -> None:
    folder.create_table("mine", ROWS)
    assert lance.dataset(str(tmp_path / "mine.lance")).to_table().equals(ROWS)
    lance.write_dataset(ROWS, str(tmp_path / "theirs.lance"))
    assert folder.list_tables() == ["mine", "theirs"]
    assert folder.open_table("theirs").to_table().equals(ROWS)


def test_names_with_dots(folder: Catalog) -> None:
    folder.create_namespace(("a.b",))
    folder.create_namespace(("a.b", "c`d"))
    assert folder.list_namespaces() == ["`a.b`"]
    assert folder.list_namespaces("`a.b`") == ["`a.b`.`c``d`"]
    assert folder.list_namespaces(("a.b",)) == [("a.b", "c`d")]
    folder.create_table("`a.b`.`c``d`.t", ROWS)
    assert folder.table_exists(("a.b", "c`d", "t"))
    for name in ("", "a..b", "`a", ()):
        with pytest.raises(InvalidInputError):
            folder.open_table(name)


def test_an_empty_table_is_made_of_a_schema(folder: Catalog) -> None:
    made = folder.create_table("t", ROWS.schema)
    assert (made.count_rows(), made.schema) == (0, ROWS.schema)
    parts = folder.create_table("p", ROWS.schema, partition_by=["city"])
    assert (parts.count_rows(), parts.schema) == (0, ROWS.schema)


@pytest.mark.parametrize("partition_by", [(), ("city",)])
@pytest.mark.parametrize(
    ("rows", "arguments"),
    [
        (pa.table({"city": ["x"], "_rowid": pa.array([1], pa.uint64())}), {}),
        (ROWS, {"properties": {"lance.autocleanup": "1"}}),
        ([{"city": "x"}, {"city": 1}], {}),
    ],
)
def test_a_table_that_cannot_be_made_leaves_its_name_free(
    catalog: Catalog, tmp_path: Path, rows: object, arguments: dict[str, object], partition_by: tuple[str, ...]
) -> None:
    with pytest.raises(LanceError):
        catalog.create_table("t", rows, partition_by=partition_by, **arguments)
    assert catalog.list_tables() == []
    assert [path.name for path in tmp_path.iterdir() if path.name != "__manifest"] == []
    assert catalog.create_table("t", ROWS, partition_by=partition_by).count_rows() == 3


def test_properties_are_those_of_a_new_table(folder: Catalog, tmp_path: Path) -> None:
    folder.create_table("t", ROWS, properties={"lance.auto_cleanup.interval": "20"})
    assert lance.dataset(str(tmp_path / "t.lance")).config()["lance.auto_cleanup.interval"] == "20"
    with pytest.raises(InvalidInputError, match="keeps its properties"):
        folder.create_table("t", ROWS, properties={"mine": "1"}, mode="overwrite")
    folder.create_table("p", ROWS, partition_by=["city"])
    with pytest.raises(InvalidInputError, match="keeps its properties"):
        lance_spark.write(
            ROWS, folder.open_table("p").root, mode="append", partition_by=["city"], properties={"mine": "1"}
        )


@pytest.mark.parametrize("name", ["partition_spec_v2", "schema"])
def test_definitions_of_a_partitioned_table_are_no_properties(folder: Catalog, tmp_path: Path, name: str) -> None:
    """Such a table could not be read any more."""
    with pytest.raises(InvalidInputError, match=f"property {name} of a partitioned table cannot be set"):
        folder.create_table("p", ROWS, partition_by=["city"], properties={name: "1"})
    with pytest.raises(InvalidInputError, match=f"property {name} of a partitioned table cannot be set"):
        lance_spark.write(ROWS, tmp_path / "q", partition_by=["city"], properties={name: "1"})
    assert not (tmp_path / "q").exists()


@pytest.mark.parametrize("partition_by", [(), ("city",)])
def test_tables_are_registered_and_renamed(folder: Catalog, tmp_path: Path, partition_by: tuple[str, ...]) -> None:
    lance_spark.write(ROWS, tmp_path / "elsewhere", partition_by=partition_by)
    folder.create_namespace("db")
    found = folder.register_table("db.t", tmp_path / "elsewhere")
    assert found.count_rows() == 3
    with pytest.raises(InvalidInputError):
        folder.register_table("db.u", tmp_path / "elsewhere")
    again = found.append(ROWS) if partition_by else found.append(ROWS).delete("id = 1")
    if not partition_by:  # What follows each commit of a plain table follows those of a registered one.
        again = again.update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.retain_versions": "1"})
        for value in (2, 3):
            again = again.delete(f"id = {value}")
        assert [entry.version for entry in again.versions()] == [again.version]
        lance_spark.open(tmp_path / "elsewhere").append(ROWS)
    folder.rename_table("db.t", "moved")
    assert folder.list_tables() == ["moved"]
    assert folder.open_table("moved").count_rows() == (6 if partition_by else 3)
    folder.deregister_table("moved")
    assert folder.list_tables() == []
    assert lance_spark.open(tmp_path / "elsewhere").count_rows() == (6 if partition_by else 3)
    with pytest.raises(NotFoundError):
        folder.register_table("db.t", tmp_path / "nowhere")


def test_a_new_table_does_not_see_the_rows_of_a_dropped_one(catalog: Catalog) -> None:
    catalog.create_namespace("db")
    catalog.create_table("db.t", ROWS)
    catalog.drop_table("db.t")
    with pytest.raises(NotFoundError):
        catalog.open_table("db.t")
    assert catalog.create_table("db.t", ROWS.slice(0, 1)).count_rows() == 1


def test_tags_and_branches(folder: Catalog) -> None:
    table = folder.create_table("t", ROWS)
    table.create_tag("first")
    table.append(ROWS).create_branch("trial")
    assert folder.open_table("t", tag="first").count_rows() == 3
    assert folder.open_table("t", branch="trial").count_rows() == 6
    with pytest.raises(NotFoundError):
        folder.open_table("t", version=99)


def test_a_catalog_can_be_pickled_and_shows_no_secret(tmp_path: Path) -> None:
    folder = lance_spark.connect(tmp_path, **{"storage.aws_secret_access_key": "hidden"})
    folder.create_table("t", ROWS)
    assert pickle.loads(pickle.dumps(folder)).open_table("t").count_rows() == 3
    server = lance_spark.connect("http://localhost:1", impl="rest", **{"header.Authorization": "Bearer hidden"})
    assert repr(folder) == f"Catalog(impl='dir', {str(tmp_path)!r})"
    assert repr(server) == "Catalog(impl='rest', 'http://localhost:1')"
    assert repr(pickle.loads(pickle.dumps(server))) == repr(server)


@pytest.mark.parametrize(
    ("address", "settings", "message"),
    [
        (None, {}, "a directory catalog needs its folder"),
        ("/x", {"region": "eu"}, "a folder has no setting region"),
        ("/x", {"parent": "a"}, "a folder has no setting parent"),
        ("/x", {"impl": "other"}, "impl is 'other', which is not one of dir"),
        (None, {"impl": "rest"}, "needs the setting uri"),
        ("ftp://x", {"impl": "rest"}, "is no address of a REST namespace"),
        ("http://x", {"impl": "rest", "root": "/y"}, "has no setting root"),
        (None, {"impl": "rest", "url": "http://x"}, "did you mean uri"),
        ("http://x", {"impl": "rest", "header.a": ""}, "header.a of the catalog is empty"),
        ("/x", {"storage.timeout": 3}, "storage.timeout of a catalog is 3; give a text"),
        (None, {"impl": "nowhere.at.All"}, "cannot be imported"),
    ],
)
def test_settings_that_are_refused(address: str | None, settings: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        lance_spark.connect(address, **settings)


def test_levels_above_a_catalog(tmp_path: Path) -> None:
    whole = lance_spark.connect(impl="lance.namespace.DirectoryNamespace", root=str(tmp_path))
    whole.create_namespace(("a.b",))
    whole.create_namespace(("a.b", "c"))
    settings = {"root": str(tmp_path), "parent": "a.b/c", "parent_delimiter": "/"}
    below = lance_spark.connect(impl="lance.namespace.DirectoryNamespace", **settings)
    below.create_table("t", ROWS)
    assert names_of_the_reference(tmp_path, "a.b", "c") == ["t"]
    assert whole.open_table("`a.b`.c.t").count_rows() == 3


def test_a_namespace_goes_with_its_content(catalog: Catalog) -> None:
    for name in ("a", "a.b"):
        catalog.create_namespace(name)
        catalog.create_table(f"{name}.t", ROWS)
    with pytest.raises(NotEmptyError):
        catalog.drop_namespace("a")
    catalog.drop_namespace("a", cascade=True)
    assert catalog.list_namespaces() == []
    with pytest.raises(NotFoundError):
        catalog.open_table("a.b.t")


def test_one_namespace_for_the_tables_of_the_root(tmp_path: Path) -> None:
    lance.write_dataset(ROWS, str(tmp_path / "t.lance"))
    flat = lance_spark.connect(tmp_path, single_level_ns="true")
    assert (flat.list_namespaces(), flat.list_tables("default"), flat.list_tables()) == (["default"], ["default.t"], [])
    flat.create_table("default.u", ROWS, partition_by=["city"])
    assert names_of_the_reference(tmp_path) == ["t", "u"]
    assert flat.open_table("default.u").count_rows("city = 'Oslo'") == 2
    flat.drop_table("default.u", purge=True)
    for name in ("t", "other.t", "default.x.t"):
        assert not flat.table_exists(name)
        with pytest.raises(NotFoundError):
            flat.create_table(name, ROWS)
    with pytest.raises(UnsupportedFeatureError, match="has one namespace, default"):
        flat.create_namespace("x")
    with pytest.raises(InvalidInputError, match="it is true or false"):
        lance_spark.connect(tmp_path, single_level_ns="maybe")


def test_what_a_server_cannot_do_is_said(tmp_path: Path) -> None:
    with RestAdapter("dir", {"root": str(tmp_path)}, host="127.0.0.1", port=0) as server:
        catalog = lance_spark.connect(f"http://127.0.0.1:{server.port}", impl="rest")
        catalog.create_table("t", ROWS)
        with pytest.raises(UnsupportedFeatureError):
            catalog.rename_table("t", "u")
        assert catalog.list_tables() == ["t"]
