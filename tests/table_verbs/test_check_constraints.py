"""CHECK constraints are enforced by every verb that writes rows, on plain and partitioned tables alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    RetryableConflictError,
    UnsupportedFeatureError,
)
from lance_spark.partitioned import columns as partitioned
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.schema.constraints import checks_of
from lance_spark.table.columns import check_constraints as plain
from tests.table_verbs.kinds import ROWS, Kind, content, table_of

VIOLATES = "violates the CHECK constraint 'positive'"


def with_check(dataset: Any, name: str, condition: str) -> Any:
    if isinstance(dataset, PartitionedTable):
        return type(dataset).of(partitioned.add_check(dataset, name, condition))
    return type(dataset)(dataset.location, plain.add_check(dataset.location, dataset.manifest, name, condition))


def without_check(dataset: Any, name: str) -> Any:
    if isinstance(dataset, PartitionedTable):
        return type(dataset).of(partitioned.drop_check(dataset, name))
    return type(dataset)(dataset.location, plain.drop_check(dataset.location, dataset.manifest, name))


def test_rows_that_violate_a_check_are_refused(kind: Kind, dataset: Any) -> None:
    checked = with_check(dataset, "positive", "v > 0 OR p = 'free'")
    bad, good = table_of((6, "a", -1)), table_of((6, "a", None), (7, "free", -1))
    for verb in ("append", "overwrite"):
        with pytest.raises(InvalidInputError, match=VIOLATES):
            getattr(checked, verb)(bad)
    with pytest.raises(InvalidInputError, match=VIOLATES):
        checked.merge(table_of((1, "a", -1)), "id")
    # The source of a merge has only one of the two columns; the merged row counts.
    with pytest.raises(InvalidInputError, match=VIOLATES):
        checked.merge(pa.table({"id": [1], "v": pa.array([-5], pa.int32())}), "id", when_not_matched=None)
    with pytest.raises(InvalidInputError, match=VIOLATES):
        checked.update({"v": "v - 10"}, "id = 1")
    with pytest.raises(InvalidInputError, match=VIOLATES):
        checked.replace_where(table_of((1, "a", 0)), "id = 1")
    assert content(checked) == ROWS
    made = checked.append(good)
    kind.check(made, [*ROWS, (6, "a", None), (7, "free", -1)])
    merged = made.merge(pa.table({"id": [7], "v": pa.array([-5], pa.int32())}), "id", when_not_matched=None)
    kind.check(merged, [*ROWS, (6, "a", None), (7, "free", -5)])

    free = without_check(merged, "POSITIVE")
    assert not checks_of(free.lance_schema)
    kind.check(free.append(table_of((8, "b", -8))), [*ROWS, (6, "a", None), (7, "free", -5), (8, "b", -8)])


def test_check_that_rows_violate_is_not_added(kind: Kind, dataset: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"violates the CHECK constraint 'small'.*v = 40"):
        with_check(dataset, "small", "v < 40")
    kind.check(dataset, ROWS)
    # Deleted rows do not count, nor do nulls.
    assert checks_of(with_check(dataset.delete("v >= 40"), "small", "v < 40").lance_schema) == {"small": "v < 40"}


@pytest.mark.parametrize(
    ("condition", "error", "text"),
    [
        ("nope > 0", InvalidInputError, "does not fit the columns"),
        ("v", InvalidInputError, "does not fit the columns"),
        ("reflect('java.lang.System', 'exit', 1) > 0", UnsupportedFeatureError, "cannot be enforced"),
        ('p = "a"', UnsupportedFeatureError, "without double quotes"),
        ("v > 0 -- or not", UnsupportedFeatureError, "comments"),
    ],
)
def test_check_that_cannot_be_enforced_is_refused(
    tmp_path: Path, condition: str, error: type[LanceError], text: str
) -> None:
    dataset = lance_spark.write(table_of(*ROWS), str(tmp_path / "t.lance"))
    with pytest.raises(error, match=text):
        with_check(dataset, "c", condition)


def test_columns_of_a_check_stay(kind: Kind, dataset: Any) -> None:
    checked = with_check(dataset, "positive", "v > 0")
    for change in (lambda: checked.drop_columns(["v"]), lambda: checked.rename_columns({"v": "w"})):
        with pytest.raises(InvalidInputError, match=r"'positive' \(v > 0\) does not fit the columns.*DROP CONSTRAINT"):
            change()
    with pytest.raises(AlreadyExistsError, match="'Positive'"):
        with_check(checked, "Positive", "v > 1")
    with pytest.raises(NotFoundError, match="the table has positive"):
        without_check(checked, "other")
    changed = checked.rename_columns({"p": "q"}).drop_columns(["q"])
    assert checks_of(changed.lance_schema) == {"positive": "v > 0"}
    renamed = without_check(changed, "positive").rename_columns({"v": "w"})
    assert renamed.schema.names == ["id", "w"]


def test_rows_and_checks_of_concurrent_writers_do_not_miss_each_other(kind: Kind, dataset: Any) -> None:
    """Each writer begins with the version before the other's."""
    dataset.append(table_of((6, "a", -1)))
    with pytest.raises(InvalidInputError, match=VIOLATES):
        with_check(dataset, "positive", "v > 0")
    before = dataset.newest().delete("id = 6")
    checked = with_check(dataset, "positive", "v > 0")
    assert checks_of(checked.lance_schema) == {"positive": "v > 0"}
    for change in (
        lambda: before.append(table_of((7, "a", -1))),
        lambda: before.update({"v": "-1"}, "id = 1"),
        lambda: before.merge(table_of((1, "a", -1)), "id"),
    ):
        with pytest.raises((InvalidInputError, RetryableConflictError)):
            change()
    kind.check(checked.newest(), ROWS)


def test_check_of_a_foreign_table_that_is_not_understood_stops_writes(tmp_path: Path) -> None:
    dataset = lance_spark.write(table_of(*ROWS), str(tmp_path / "t.lance"))
    foreign = dataset.update_schema_metadata({"lance-spark:check:c": "my_function(v)"})
    assert content(foreign) == ROWS
    with pytest.raises(UnsupportedFeatureError, match="CHECK constraint 'c'"):
        foreign.append(table_of((6, "a", 1)))


def test_reference_library_reads_and_appends_to_a_table_with_a_check(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    checked = with_check(lance_spark.write(table_of(*ROWS), uri), "positive", "v > 0")
    reference = lance.write_dataset(table_of((6, "a", -1)), uri, mode="append")
    assert reference.count_rows() == 6
    # It enforces nothing, but keeps the constraint.
    with pytest.raises(InvalidInputError, match=VIOLATES):
        checked.newest().append(table_of((7, "a", -1)))
