"""REPLACE WHERE and upserts, whose rows are written before the commit, while others change rows and columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import IncompatibleConflictError
from lance_spark.expr.sql.parse import condition_of
from lance_spark.storage.faults import Fault, Harm
from lance_spark.table.columns.check_constraints import add_check
from lance_spark.table.dataset import Dataset
from lance_spark.table.row_level.row_verbs import RowsToWrite
from lance_spark.table.writing.file_limits import FileLimits
from lance_spark.table.writing.row_source import RowSource
from tests.support.harmed_tables import PUT, QUIET, assert_nothing_left_over, with_faults
from tests.support.row_verbs import replace_where


def rows(*keys: int) -> pa.Table:
    return pa.table({"a": pa.array(keys, pa.int32()), "b": pa.array(keys, pa.int32())})


def replace_beside(uri: str, act: Callable[[Dataset], object]) -> list[dict[str, object]]:
    """Replaces rows with `a` < 3 by others; between its read and its commit another writer acts."""
    location = with_faults(uri, Fault(PUT, Harm.NONE, run=lambda: act(lance_spark.open(uri))))
    new = RowsToWrite(RowSource.of(rows(1, 2)), FileLimits(), QUIET)
    replace_where(location, lance_spark.open(uri).manifest, new, condition_of("a < 3", to_match_all="true"))
    return lance_spark.open(uri).to_table().sort_by("a").to_pylist()


COLUMNS: dict[str, Callable[[Dataset], object]] = {
    "type": lambda dataset: dataset.alter_column("b", data_type=pa.int64()),
    "drop": lambda dataset: dataset.drop_columns(["b"]),
    "check": lambda dataset: add_check(dataset.location, dataset.manifest, "not_one", "b <> 1"),
    "overwrite": lambda dataset: lance_spark.write(pa.table({"b": ["x"]}), dataset.uri, mode="overwrite"),
    "base": lambda dataset: dataset.restore(1),
}


@pytest.mark.parametrize("change", COLUMNS)
@pytest.mark.parametrize("first", ["delete", "overwrite", "restore"])
def test_rows_are_not_replaced_in_other_columns(tmp_path: Path, first: str, change: str) -> None:
    """The first change makes it search again, in a version that also has the second one."""
    uri = str(tmp_path / "t")
    made = lance_spark.write(rows(0, 2, 3), uri)
    if change == "base":
        made.add_bases([lance_spark.BasePath(1, str(tmp_path / "other"), True)])
    expected = []

    def act(dataset: Dataset) -> None:
        other = {
            "delete": lambda: dataset.delete("a = 0"),
            "overwrite": lambda: dataset.overwrite(rows(2, 4)),
            "restore": lambda: dataset.delete("a = 0").restore(dataset.version),
        }[first]()
        COLUMNS[change](other)
        expected.append(lance_spark.open(uri).to_table())

    with pytest.raises(IncompatibleConflictError):
        replace_beside(uri, act)
    assert lance_spark.open(uri).to_table() == expected[0]
    assert_nothing_left_over(uri)


@pytest.mark.parametrize("stable_row_ids", [False, True])
@pytest.mark.parametrize("restores", [False, True])
def test_rows_are_replaced_in_other_rows_of_the_same_table(
    tmp_path: Path, restores: bool, stable_row_ids: bool
) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(2, 3), uri, enable_stable_row_ids=stable_row_ids).append(rows(1, 5))

    def act(dataset: Dataset) -> None:
        if restores:
            dataset.restore(1)
        else:
            dataset.overwrite(rows(0, 4))

    left = [3] if restores else [4]
    assert [row["a"] for row in replace_beside(uri, act)] == [1, 2, *left]
    assert_nothing_left_over(uri)
