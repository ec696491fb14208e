"""Catalogs by classes with the Python interface of namespaces: that of the reference library, and some that fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_namespace import LanceNamespace
from lance_namespace.errors import TableNotFoundError
from lance_namespace_urllib3_client.models import (
    DeclareTableRequest,
    DeclareTableResponse,
    DeregisterTableRequest,
    DeregisterTableResponse,
    DescribeTableRequest,
    DescribeTableResponse,
    ListTablesRequest,
    ListTablesResponse,
)

import lance_spark
from lance_spark.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LanceError,
    NotEmptyError,
    NotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.namespace.served.interface import InterfaceNamespace

ROWS = pa.table({"a": [1, 2, 3]})
REFERENCE = "lance.namespace.DirectoryNamespace"


class NoSuchTableException(Exception):
    """An error as clients of other catalogs name it."""


class Failing(LanceNamespace):
    """Knows tables whose names say what describing them does."""

    def namespace_id(self) -> str:
        return "failing"

    def describe_table(self, request: DescribeTableRequest) -> DescribeTableResponse:
        name = (request.id or [""])[-1]
        if name == "coded":
            raise TableNotFoundError("no")
        if name == "named":
            raise NoSuchTableException("no")
        if name == "worded":
            raise RuntimeError("table x does not exist")
        if name == "secret":
            return DescribeTableResponse(location="s3://b/t", storage_options={"region": "r"}, properties={"p": "1"})
        if name == "managed":
            return DescribeTableResponse(location="s3://b/t", managed_versioning=True)
        if name == "nowhere":
            return DescribeTableResponse()
        raise RuntimeError("the catalog is on fire")


class Refusing(Failing):
    """Names a credential in its error."""

    def __init__(self, **properties: str) -> None:
        raise ValueError(f"no {properties['token']}")


class Disconnecting(Failing):
    """An object whose first request ends its connection."""

    def __init__(self) -> None:
        self.requests = 0

    def describe_table(self, request: DescribeTableRequest) -> DescribeTableResponse:
        self.requests += 1
        if self.requests > 1:
            raise RuntimeError("the connection has ended")
        return DescribeTableResponse(location="s3://b/t")


class Keeping(Failing):
    """Keeps the versions of its tables, and forgets a name or not."""

    def __init__(self, forgets: str) -> None:
        self.forgets = forgets == "yes"
        self.names: set[str] = set()

    def declare_table(self, request: DeclareTableRequest) -> DeclareTableResponse:
        self.names.add((request.id or [""])[-1])
        return DeclareTableResponse(location="s3://b/t", managed_versioning=True)

    def deregister_table(self, request: DeregisterTableRequest) -> DeregisterTableResponse:
        if not self.forgets:
            raise RuntimeError("busy")
        self.names.remove((request.id or [""])[-1])
        return DeregisterTableResponse()

    def list_tables(self, request: ListTablesRequest) -> ListTablesResponse:
        return ListTablesResponse(tables=sorted(self.names))


FAILING = f"{Failing.__module__}.{Failing.__name__}"


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "root")


@pytest.fixture
def names(root: str) -> InterfaceNamespace:
    return InterfaceNamespace(REFERENCE, {"root": root})


def test_names_of_the_reference_library(names: InterfaceNamespace, root: str) -> None:
    names.create_namespace(("db",), {"owner": "ann"})
    assert names.list_namespaces() == ["db"] == DirectoryNamespace(root).list_namespaces()
    assert names.namespace_properties(("db",))["owner"] == "ann"
    assert names.namespace_exists(("db",))
    assert not names.namespace_exists(("other",))
    with pytest.raises(AlreadyExistsError, match=r"DirectoryNamespace says of db"):
        names.create_namespace(("db",))
    declared = names.declare_table(("db", "t"))
    assert names.table_location(("db", "t")).is_declared
    lance_spark.write(ROWS, declared.uri)
    assert not names.table_location(("db", "t")).is_declared
    assert lance.dataset(names.table_location(("db", "t")).uri).to_table() == ROWS
    assert names.list_tables(("db",)) == ["t"] == DirectoryNamespace(root).list_tables(("db",))
    assert names.spelling(("DB", "T"), is_table=True) == ("db", "t")
    with pytest.raises(NotEmptyError):
        names.drop_namespace(("db",))
    with pytest.raises(NotFoundError):
        names.table_location(("db", "u"))
    with pytest.raises(UnsupportedFeatureError, match="rename_table"):
        names.rename_table(("db", "t"), ("db", "u"))
    names.drop_table(("db", "t"), purge=True)
    assert not names.table_exists(("db", "t"))
    names.drop_namespace(("db",))
    assert DirectoryNamespace(root).list_namespaces() == []


def test_tables_of_our_own_catalog_are_found(root: str, names: InterfaceNamespace) -> None:
    ours = DirectoryNamespace(root)
    ours.create_namespace(("db",))
    lance_spark.write(ROWS, ours.declare_table(("db", "t")).uri)
    assert lance_spark.open(names.table_location(("db", "t")).uri).count_rows() == 3


def test_parent_stands_before_each_name(root: str) -> None:
    names = InterfaceNamespace(REFERENCE, {"root": root}, parent=("company", "lake"))
    whole = InterfaceNamespace(REFERENCE, {"root": root})
    for path in (("company",), ("company", "lake")):
        whole.create_namespace(path)
    names.create_namespace(("db",))
    lance_spark.write(ROWS, names.declare_table(("db", "t")).uri)
    assert names.list_namespaces() == ["db"]
    assert names.spelling(("Db", "T"), is_table=True) == ("db", "t")
    assert whole.list_tables(("company", "lake", "db")) == ["t"] == names.list_tables(("db",))
    assert whole.table_location(("company", "lake", "db", "t")) == names.table_location(("db", "t"))


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("coded", NotFoundError),
        ("named", NotFoundError),
        ("worded", NotFoundError),
        ("fire", StorageError),
        ("managed", UnsupportedFeatureError),
        ("nowhere", StorageError),
    ],
)
def test_errors_of_a_class_are_translated(name: str, error: type[LanceError]) -> None:
    with pytest.raises(error):
        InterfaceNamespace(FAILING, {}).table_location((name,))


@pytest.mark.parametrize(("forgets", "message"), [("yes", "t was not created"), ("no", "stays declared.*busy")])
def test_no_table_is_declared_where_a_class_keeps_the_versions(forgets: str, message: str) -> None:
    names = InterfaceNamespace(f"{Keeping.__module__}.Keeping", {"forgets": forgets})
    with pytest.raises(UnsupportedFeatureError, match=f"keeps the versions.*{message}"):
        names.declare_table(("t",))
    if forgets == "yes":
        assert names.list_tables() == []


def test_location_options_and_properties_come_from_the_class() -> None:
    entry = InterfaceNamespace(FAILING, {}).table_location(("secret",))
    assert (entry.uri, entry.storage_options, entry.properties) == ("s3://b/t", {"region": "r"}, {"p": "1"})
    with pytest.raises(UnsupportedFeatureError, match="list_tables"):
        InterfaceNamespace(FAILING, {}).list_tables()


def test_object_is_kept_until_it_fails() -> None:
    path = f"{__name__}.Disconnecting"
    assert InterfaceNamespace(path, {}).table_exists(("t",))
    with pytest.raises(StorageError, match="the connection has ended"):
        InterfaceNamespace(path, {}).table_exists(("t",))
    assert InterfaceNamespace(path, {}).table_exists(("t",))


@pytest.mark.parametrize(
    ("class_path", "properties", "message"),
    [
        ("nowhere.at.All", {}, "cannot be imported"),
        ("lance.namespace.Nothing", {}, "cannot be imported"),
        ("builtins.dict", {}, "lacks list_namespaces"),
        ("os.getcwd", {}, "no class with the interface"),
        (FAILING, {"token": "s3cret"}, "cannot be made with the settings token"),
        (f"{__name__}.Refusing", {"token": "s3cret", "empty": ""}, r"settings empty, token: ValueError: no \*\*\*"),
    ],
)
def test_classes_that_cannot_be_used(class_path: str, properties: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as raised:
        InterfaceNamespace(class_path, properties)
    assert "s3cret" not in str(raised.value)
