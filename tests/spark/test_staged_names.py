"""A table whose rows are committed gets its name last; only a statement that certainly has no name deletes the rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import LongType, StructField, StructType

import lance_spark
from lance_spark.errors import AlreadyExistsError, LanceError, NotFoundError, StorageError
from lance_spark.partitioned.new_name import NewName
from lance_spark.spark.connector.catalog import staged
from lance_spark.spark.connector.channel.handles import CatalogSettings, Staged, TableHandle


@pytest.fixture
def table(tmp_path: Path) -> staged.StagedTable:
    definition = Staged(
        StructType([StructField("a", LongType())]),
        catalog=CatalogSettings("lance", {"root": str(tmp_path)}),
        identifier=("t",),
        location="made",
    )
    return staged.StagedTable(TableHandle(uri=str(tmp_path / "made"), version=None, staged=definition))


def fail_with(monkeypatch: pytest.MonkeyPatch, error: LanceError) -> None:
    """Lets the table get its name, and the statement an error."""
    give = NewName.give

    def named(name: NewName, replaces: str | None = None) -> None:
        give(name, replaces)
        raise error

    monkeypatch.setattr(NewName, "give", named)


def test_an_error_after_which_the_table_may_have_its_name_keeps_it(
    table: staged.StagedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(monkeypatch, StorageError("the store does not reply"))
    with pytest.raises(StorageError):
        table.commit()
    assert lance_spark.open(table.handle.uri).version == 1


@pytest.mark.parametrize("error", [AlreadyExistsError("t exists"), NotFoundError("there is no t")])
def test_a_table_without_a_name_is_deleted(
    table: staged.StagedTable, monkeypatch: pytest.MonkeyPatch, error: LanceError
) -> None:
    fail_with(monkeypatch, error)
    with pytest.raises(type(error)):
        table.commit()
    assert not list(Path(table.handle.uri).rglob("*.manifest"))
