"""A handle of a table that was removed and created again at the same place does not write to the new table.

The reference library (14.0.2) commits, and the new table then names data files of the old one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import LanceError, NotFoundError
from lance_spark.table.dataset import Dataset

ROWS = pa.table({"n": [1, 2, 3]})
OTHER = pa.table({"n": [7, 8]})

WRITES: dict[str, Callable[[Dataset], object]] = {
    "append": lambda table: table.append(ROWS),
    "delete": lambda table: table.delete("n = 1"),
    "update": lambda table: table.update({"n": "n + 1"}, "n = 1"),
    "merge": lambda table: table.merge_insert("n").when_not_matched_insert_all().execute(pa.table({"n": [5]})),
    "add_columns": lambda table: table.add_columns({"m": "n"}),
    "update_config": lambda table: table.update_config({"a": "b"}),
}


MAINTENANCE: dict[str, Callable[[Dataset], object]] = {
    "compact": lambda table: table.compact(),
    "create_scalar_index": lambda table: table.create_scalar_index("n", "btree"),
    "optimize_indices": lambda table: table.optimize_indices(),
}
"""These do nothing, or run again on the newest version."""

VERSIONS = {"same number": (2, 2), "fewer": (3, 1), "more": (2, 4)}


def replaced(uri: Path, versions: tuple[int, int]) -> tuple[Dataset, pa.Table]:
    """(a handle of the table that was removed, the rows of the new one)."""

    def made(rows: pa.Table, count: int) -> Dataset:
        table = lance_spark.write(rows, str(uri))
        for _ in range(count - 1):
            table = table.append(rows)
        return table

    stale = made(ROWS, versions[0])
    shutil.rmtree(uri)
    return stale, made(OTHER, versions[1]).to_table()


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("versions", VERSIONS.values(), ids=VERSIONS)
def test_a_table_that_was_created_again_is_left_alone(
    tmp_path: Path, versions: tuple[int, int], write: Callable[[Dataset], object]
) -> None:
    stale, expected = replaced(tmp_path / "t", versions)
    with pytest.raises(NotFoundError):
        write(stale)
    assert lance_spark.open(str(tmp_path / "t")).to_table() == expected
    assert lance_spark.open(str(tmp_path / "t")).append(OTHER).count_rows() == expected.num_rows + 2


@pytest.mark.parametrize("maintain", MAINTENANCE.values(), ids=MAINTENANCE)
@pytest.mark.parametrize("versions", VERSIONS.values(), ids=VERSIONS)
def test_maintenance_keeps_the_rows_of_the_new_table(
    tmp_path: Path, versions: tuple[int, int], maintain: Callable[[Dataset], object]
) -> None:
    stale, expected = replaced(tmp_path / "t", versions)
    with suppress(LanceError):
        maintain(stale)
    found = lance_spark.open(str(tmp_path / "t"))
    assert found.to_table() == expected
    assert found.count_rows("n = 7") == versions[1]


def test_a_version_that_was_cleaned_up_is_still_followed(tmp_path: Path) -> None:
    stale = lance_spark.write(ROWS, str(tmp_path / "t"))
    lance_spark.open(str(tmp_path / "t")).append(OTHER)
    lance_spark.open(str(tmp_path / "t")).cleanup(keep_versions=1)
    assert stale.append(ROWS).count_rows() == 8
