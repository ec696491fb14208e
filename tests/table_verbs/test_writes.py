"""Appends, overwrites and replaced rows are the same in tables with and without partitions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CommitConflictError, InvalidInputError, NotFoundError
from lance_spark.partitioned.dataset import PartitionedDataset
from tests.table_verbs.kinds import ROWS, SCHEMA, Kind, content, table_of

VERBS: list[tuple[str, tuple[Any, ...]]] = [("append", ()), ("overwrite", ()), ("replace_where", ("id < 100",))]


def write(dataset: Any, verb: str, data: Any, **options: Any) -> Any:
    return getattr(dataset, verb)(data, *dict(VERBS)[verb], **options)


@pytest.mark.parametrize(
    ("verb", "expected"),
    [("append", [*ROWS, (6, "c", 60)]), ("overwrite", [(6, "c", 60)]), ("replace_where", [(6, "c", 60)])],
)
def test_write_makes_one_version(kind: Kind, dataset: Any, verb: str, expected: list[Any]) -> None:
    made = write(dataset, verb, table_of((6, "c", 60)), commit_message="why", transaction_properties={"job": "7"})
    assert made.version == dataset.version + 1
    kind.check(made, expected)
    assert content(dataset) == ROWS
    entry = made.versions(1)[0]
    assert (entry.message, entry.properties) == ("why", {"job": "7"})


@pytest.mark.parametrize("verb", [verb for verb, _ in VERBS])
def test_write_of_iterable_with_schema(kind: Kind, dataset: Any, verb: str) -> None:
    made = write(dataset, verb, iter([]), schema=SCHEMA)
    kind.check(made, ROWS if verb == "append" else [])


@pytest.mark.parametrize("verb", [verb for verb, _ in VERBS])
def test_write_without_a_nullable_column(kind: Kind, dataset: Any, verb: str) -> None:
    made = write(dataset, verb, table_of((6, "c", 60)).drop_columns(["v"]))
    kind.check(made, [*(ROWS if verb == "append" else []), (6, "c", None)])


@pytest.mark.parametrize("verb", [verb for verb, _ in VERBS])
def test_write_starts_new_files_at_the_limit(kind: Kind, dataset: Any, verb: str) -> None:
    new = [(number, "z", number) for number in range(6, 12)]
    made = write(dataset, verb, table_of(*new), max_rows_per_file=2)
    kind.check(made, [*ROWS, *new] if verb == "append" else new)
    fragments = [fragment for split in made.splits("p = 'z'") for fragment in split.manifest.fragments]
    assert sum(fragment.num_rows == 2 for fragment in fragments) >= 3


@pytest.mark.parametrize("verb", [verb for verb, _ in VERBS])
@pytest.mark.parametrize("data", [pa.table({"id": ["text"]}), pa.table({"id": [1], "more": [1]}), 7])
def test_write_of_other_columns_is_refused(kind: Kind, dataset: Any, verb: str, data: Any) -> None:
    with pytest.raises(InvalidInputError):
        write(dataset, verb, data)
    kind.check(dataset, ROWS)


def test_overwrite_keeps_columns_and_field_ids(dataset: Any) -> None:
    made = dataset.overwrite(table_of((6, "c", 60)).select(["v", "p", "id"]))
    assert made.schema == dataset.schema
    assert [field.id for field in made.lance_schema.fields] == [field.id for field in dataset.lance_schema.fields]
    assert made.update_config({"a": "b"}).overwrite(table_of()).config["a"] == "b"


def test_append_after_other_writer_appended(kind: Kind, dataset: Any) -> None:
    dataset.append(table_of((6, "a", 60)))
    kind.check(dataset.append(table_of((7, "a", 70))), [*ROWS, (6, "a", 60), (7, "a", 70)])


def test_append_after_other_writer_replaced_all_rows(kind: Kind, dataset: Any) -> None:
    dataset.overwrite(table_of((6, "a", 60)))
    kind.check(dataset.append(table_of((7, "a", 70))), [(6, "a", 60), (7, "a", 70)])


def test_overwrite_after_other_writer_replaced_all_rows(kind: Kind, dataset: Any) -> None:
    changed = dataset.overwrite(table_of((6, "a", 60)))
    with pytest.raises(CommitConflictError):
        dataset.overwrite(table_of((7, "a", 70)))
    kind.check(changed, [(6, "a", 60)])


def test_overwrite_of_written_partitions(kind: Kind, dataset: Any) -> None:
    if isinstance(dataset, PartitionedDataset):
        made = dataset.overwrite(table_of((9, "a", 90)), only_written_partitions=True)
        kind.check(made, [*ROWS[2:], (9, "a", 90)])
    else:
        with pytest.raises(InvalidInputError, match="has no partitions; leave only_written_partitions out"):
            dataset.overwrite(table_of((9, "a", 90)), only_written_partitions=True)
        kind.check(dataset, ROWS)


@pytest.mark.parametrize(
    ("filter", "kept", "new"),
    [
        ("p = 'b'", [1, 2, 5], (9, "b", 90)),
        ("id >= 4", [1, 2, 3], (9, "z", 90)),
        ("p IS NULL", [1, 2, 3, 4], (9, None, 90)),
        ("v > 35 OR v IS NULL", [1, 3], (9, "a", None)),
        ("id = 9", [1, 2, 3, 4, 5], (9, "a", 90)),
    ],
)
def test_replace_where(kind: Kind, dataset: Any, filter: str, kept: list[int], new: tuple[Any, ...]) -> None:
    made = dataset.replace_where(table_of(new), filter)
    assert made.version == dataset.version + 1
    kind.check(made, [*(row for row in ROWS if row[0] in kept), new])


@pytest.mark.parametrize("row", [(9, "a", 90), (9, None, 90)])
def test_replace_where_with_row_outside_the_condition_is_refused(kind: Kind, dataset: Any, row: Any) -> None:
    data = pa.concat_tables([table_of((8, "b", 80)), table_of(row)])
    with pytest.raises(InvalidInputError, match="does not match"):
        dataset.replace_where(data, "p = 'b'")
    kind.check(dataset, ROWS)


def test_replace_where_with_unknown_column(kind: Kind, dataset: Any) -> None:
    with pytest.raises(NotFoundError, match="missing"):
        dataset.replace_where(table_of(), "missing = 1")
    with pytest.raises(InvalidInputError, match="use overwrite"):
        dataset.replace_where(table_of(), None)
    kind.check(dataset, ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("row", [(9, "b", 90), (9, "new", 90)], ids=["known partition", "new partition"])
def test_replace_where_after_other_writer_changed_a_row(kind: Kind, dataset: Any, row: tuple[Any, ...]) -> None:
    dataset.update({"v": "0"}, "id = 3")
    made = dataset.replace_where(table_of(row), "p IN ('b', 'new')")
    kind.check(made, [ROWS[0], ROWS[1], ROWS[4], row])


def test_newest_is_the_version_of_the_last_commit(dataset: Any) -> None:
    made = dataset.append(table_of((6, "a", 60)))
    assert (dataset.newest().version, made.newest().version) == (made.version, made.version)


def test_append_to_a_branch() -> None:
    main = lance_spark.write(table_of(*ROWS), "memory://table-verbs-branch")
    branch = main.create_branch("work").append(table_of((6, "a", 60)))
    assert (content(branch), content(main.newest())) == ([*ROWS, (6, "a", 60)], ROWS)
