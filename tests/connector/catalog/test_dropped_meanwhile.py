"""Requests about a table that somebody drops while they are answered; asked without a JVM."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from tests.support.connector.scan_requests import answered

OPERATIONS = ("table.exists", "table.load", "catalog.drop_table")


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DirectoryNamespace:
    """A catalog with the table `ns.t`, which is dropped as soon as a request has found its name."""
    names = DirectoryNamespace(str(tmp_path))
    names.create_namespace(("ns",))
    location = names.declare_table(("ns", "t"))
    lance_spark.write(pa.table({"id": [1]}), location.uri)
    find_location = DirectoryNamespace.table_location

    def drop_first(self: DirectoryNamespace, identifier: tuple[str, ...]) -> object:
        monkeypatch.setattr(DirectoryNamespace, "table_location", find_location)
        names.drop_table(identifier, purge=False)
        return find_location(self, identifier)

    monkeypatch.setattr(DirectoryNamespace, "table_location", drop_first)
    return names


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_table_dropped_meanwhile_does_not_exist(names: DirectoryNamespace, tmp_path: Path, operation: str) -> None:
    catalog = {"name": "lance", "settings": {"root": str(tmp_path)}}
    purge = {"purge": True} if operation == "catalog.drop_table" else {}
    place = {"namespace": ["ns"], "name": "t", "options": {}, "by_path": False, "privileges": []}
    body, _ = answered(operation, catalog=catalog, **place, **purge)
    assert "error" not in body, body
    assert not names.table_exists(("ns", "t"))
    assert {name: value for name, value in body.items() if value is not None} in ({"done": False}, {"found": False})
