"""Appends that follow an overwrite or a restore by another writer, and verbs that run again after one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import IncompatibleConflictError
from lance_spark.storage.faults import Fault, Harm
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import CommitOptions
from tests.support.harmed_tables import NO_WAIT, PUT, with_faults
from tests.support.row_verbs import save


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


def append(location: TableLocation, table: pa.Table) -> int:
    return save(location, RowSource.of(table), mode="append", options=CommitOptions(policy=NO_WAIT)).version


OTHER_ROWS = pytest.mark.parametrize(
    ("meanwhile", "left"),
    [
        (lambda uri: lance.write_dataset(rows(5), uri, mode="overwrite"), [5]),
        (lambda uri: lance.dataset(uri, version=1).restore(), [1, 2]),
        (lambda uri: lance_spark.open(uri, version=1).restore(), [1, 2]),
        (lambda uri: lance_spark.write(rows(5), uri, mode="overwrite").restore(2), [1, 2, 3]),
    ],
)


@pytest.mark.parametrize("stable_row_ids", [False, True])
@OTHER_ROWS
def test_an_append_follows_other_rows_of_the_same_table(
    tmp_path: Path, meanwhile: Callable[[str], object], left: list[int], stable_row_ids: bool
) -> None:
    """As one that begins a moment later; the reference library refuses it."""
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(1, 2), uri, enable_stable_row_ids=stable_row_ids)
    lance.write_dataset(rows(3), uri, mode="append")

    def run() -> None:
        meanwhile(uri)

    append(with_faults(uri, Fault(PUT, Harm.NONE, run=run)), rows(9))
    reference = lance.dataset(uri)
    assert reference.to_table()["a"].to_pylist() == [*left, 9]
    assert lance_spark.open(uri).to_table() == reference.to_table()
    ids = reference.to_table(with_row_id=True)["_rowid"].to_pylist()
    assert reference._take_rows(ids)["a"].to_pylist() == [*left, 9]
    reference.validate()


def test_an_append_does_not_follow_when_a_restore_takes_its_base_away(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(1), uri).add_bases([lance_spark.BasePath(1, str(tmp_path / "other"), True)])

    def meanwhile() -> None:
        lance_spark.open(uri, version=1).restore()

    with pytest.raises(IncompatibleConflictError):
        append(with_faults(uri, Fault(PUT, Harm.NONE, run=meanwhile)), rows(2))


VERBS: dict[str, tuple[Callable[[Dataset], object], Callable[[list[int]], list[int]]]] = {
    "delete": (lambda dataset: dataset.delete("a >= 2"), lambda left: [a for a in left if a < 2]),
    "update": (
        lambda dataset: dataset.update({"a": "a * 10"}, "a > 1"),
        lambda left: [a * 10 if a > 1 else a for a in left],
    ),
    "merge": (lambda dataset: dataset.merge(rows(3, 7), "a"), lambda left: [*sorted({*left, 3, 7})]),
    "index": (lambda dataset: dataset.create_scalar_index("a", "BTREE"), lambda left: left),
    "add": (lambda dataset: dataset.add_columns({"b": "a + 1"}), lambda left: left),
    "rename": (lambda dataset: dataset.alter_column("a", name="c"), lambda left: left),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("stable_row_ids", [False, True])
@OTHER_ROWS
def test_a_verb_runs_again_on_other_rows_of_the_same_table(
    tmp_path: Path, meanwhile: Callable[[str], object], left: list[int], stable_row_ids: bool, verb: str
) -> None:
    """As one that begins a moment later; the reference library refuses it."""
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(1, 2), uri, enable_stable_row_ids=stable_row_ids)
    lance.write_dataset(rows(3), uri, mode="append")

    def run() -> None:
        meanwhile(uri)

    act, effect = VERBS[verb]
    act(Dataset(with_faults(uri, Fault(PUT, Harm.NONE, run=run)), lance_spark.open(uri).manifest))
    reference = lance.dataset(uri)
    reference.validate()
    found = lance_spark.open(uri).to_table()
    assert found == reference.to_table()
    assert sorted(found.column(0).to_pylist()) == effect(left)
    ids = reference.to_table(with_row_id=True)["_rowid"].to_pylist()
    assert sorted(reference._take_rows(ids).column(0).to_pylist()) == effect(left)
    # By an index, if there is one.
    assert reference.count_rows(f"{found.column_names[0]} = 1") == effect(left).count(1)
