"""Verbs on columns give the same columns and rows, whether the table has partitions or not."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.partitioned.dataset import PartitionedDataset
from tests.table_verbs.kinds import ROWS, Kind, content, table_of

NOTE = pa.field("note", pa.string())


@pytest.mark.parametrize("columns", [NOTE, [NOTE], pa.schema([NOTE])], ids=["field", "list", "schema"])
def test_add_columns_without_values(kind: Kind, dataset: Any, columns: Any) -> None:
    made = dataset.add_columns(columns)
    assert made.schema.names == ["id", "p", "v", "note"]
    kind.check(made, [(*row, None) for row in ROWS])
    kind.check(made.update({"note": "'x'"}, "id = 1"), [(*row, "x" if row[0] == 1 else None) for row in ROWS])


def test_add_column_that_exists(kind: Kind, dataset: Any) -> None:
    with pytest.raises(InvalidInputError, match="v"):
        dataset.add_columns(pa.field("v", pa.int32()))
    kind.check(dataset, ROWS)


def test_add_column_that_forbids_nulls(dataset: Any) -> None:
    with pytest.raises(InvalidInputError, match="null"):
        dataset.add_columns(NOTE.with_nullable(False))


def test_add_columns_to_empty_table(kind: Kind) -> None:
    made = kind.create().add_columns(NOTE)
    kind.check(kind.append(made, (1, "a", 1)), [(1, "a", 1, None)])


def test_add_columns_function_arguments_without_function(dataset: Any) -> None:
    with pytest.raises(InvalidInputError, match="function"):
        dataset.add_columns(NOTE, read_columns=["id"])


def test_add_columns_after_append_of_other_writer(kind: Kind, dataset: Any) -> None:
    kind.append(dataset, (6, "c", 60))
    kind.check(dataset.add_columns(NOTE), [(*row, None) for row in [*ROWS, (6, "c", 60)]])


def _doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"d": pc.multiply(batch["v"], 2)})


@pytest.mark.parametrize(
    ("columns", "arguments", "values"),
    [
        ({"d": "v * 2", "e": "concat(p, 'x')"}, {}, [(20, "ax"), (None, "ax"), (60, "bx"), (80, "bx"), (100, None)]),
        (_doubled, {}, [(20,), (None,), (60,), (80,), (100,)]),
        (_doubled, {"read_columns": ["v"], "batch_size": 1}, [(20,), (None,), (60,), (80,), (100,)]),
        (_doubled, {"schema": pa.schema([("d", pa.int64())])}, [(20,), (None,), (60,), (80,), (100,)]),
        ((pa.table({"id": [5, 1, 9], "d": ["five", "one", "nine"]}), ["id"]), {}, [*zip(["one", *[None] * 3, "five"])]),
    ],
    ids=["expressions", "function", "function of column", "function with schema", "keys"],
)
def test_add_columns_with_values(
    kind: Kind, dataset: Any, columns: Any, arguments: dict[str, Any], values: list[tuple[Any, ...]]
) -> None:
    made = dataset.add_columns(columns, **arguments)
    assert made.version == dataset.version + 1
    kind.check(made, [(*row, *more) for row, more in zip(ROWS, values, strict=True)])
    kind.check(made.delete("id > 2"), [(*row, *more) for row, more in zip(ROWS[:2], values, strict=False)])


def test_add_columns_with_values_after_writes_of_others(kind: Kind, dataset: Any) -> None:
    kind.append(dataset, (6, "c", 60), (7, "a", 70)).delete("id = 3")
    expected = [(*row, row[0] + 1) for row in [ROWS[0], ROWS[1], *ROWS[3:], (6, "c", 60), (7, "a", 70)]]
    kind.check(dataset.add_columns({"d": "id + 1"}), expected)


def test_add_columns_with_values_to_empty_table(kind: Kind) -> None:
    made = kind.create().add_columns(_doubled)
    assert made.schema.field("d").type == pa.int64()
    kind.check(kind.append(made, (1, "a", 1)), [(1, "a", 1, None)])


@pytest.mark.parametrize("columns", [{"v": "1"}, {"d": "missing + 1"}, {"d": "NULL"}, {}, 3, ([], "id", "v")])
def test_add_columns_that_cannot_be_computed(kind: Kind, dataset: Any, columns: Any) -> None:
    with pytest.raises((InvalidInputError, NotFoundError)):
        dataset.add_columns(columns)
    kind.check(dataset, ROWS)


def test_add_columns_whose_function_fails(kind: Kind, dataset: Any) -> None:
    def fails(batch: pa.RecordBatch) -> pa.RecordBatch:
        if 4 in batch["id"].to_pylist():
            raise KeyError("four")
        return _doubled(batch)

    with pytest.raises(KeyError, match="four"):
        dataset.add_columns(fails)
    kind.check(dataset, ROWS)
    kind.check(kind.append(dataset.add_columns(_doubled), (6, "b", 60)), [*_with_doubles(), (6, "b", 60, None)])


def _with_doubles() -> list[tuple[Any, ...]]:
    return [(*row, None if row[2] is None else 2 * row[2]) for row in ROWS]


def test_add_columns_by_place_of_rows(kind: Kind, dataset: Any) -> None:
    places = dataset.to_table(["v"], with_row_address=True).rename_columns(["d", "_rowaddr"])
    if isinstance(dataset, PartitionedDataset):
        with pytest.raises(InvalidInputError, match="one partition only"):
            dataset.add_columns((places, ["_rowaddr"]))
    else:
        kind.check(dataset.add_columns((places, ["_rowaddr"])), [(*row, row[2]) for row in ROWS])


def test_drop_columns(kind: Kind, dataset: Any) -> None:
    kind.check(dataset.drop_columns(["v"]), [row[:2] for row in ROWS])
    assert content(dataset) == ROWS


def test_dropped_column_that_is_added_again_is_null(kind: Kind, dataset: Any) -> None:
    made = dataset.drop_columns(["v"]).add_columns(pa.field("v", pa.int32()))
    kind.check(made, [(*row[:2], None) for row in ROWS])


def test_drop_unknown_column(dataset: Any) -> None:
    with pytest.raises(NotFoundError, match="missing"):
        dataset.drop_columns(["missing"])


@pytest.mark.parametrize("verb", ["drop_columns", "reorder_columns"])
def test_columns_given_as_text(dataset: Any, verb: str) -> None:
    with pytest.raises(InvalidInputError, match="list"):
        getattr(dataset, verb)("v")


def test_drop_columns_after_append_of_other_writer(kind: Kind, dataset: Any) -> None:
    kind.append(dataset, (6, "c", 60))
    kind.check(dataset.drop_columns(["v"]), [row[:2] for row in [*ROWS, (6, "c", 60)]])


def test_rename_columns(kind: Kind, dataset: Any) -> None:
    made = dataset.rename_columns({"v": "w", "p": "q"})
    assert made.schema.names == ["id", "q", "w"]
    kind.check(made, ROWS)
    assert made.count_rows("q = 'a'") == 2


def test_rename_to_taken_name(dataset: Any) -> None:
    with pytest.raises(InvalidInputError, match="id"):
        dataset.rename_columns({"v": "id"})


def test_reorder_columns(kind: Kind, dataset: Any) -> None:
    made = dataset.reorder_columns(["v"])
    assert made.schema.names == ["v", "id", "p"]
    kind.check(made, [(row[2], row[0], row[1]) for row in ROWS])


def test_alter_column_type(kind: Kind, dataset: Any) -> None:
    made = dataset.alter_column("v", data_type=pa.int64())
    assert made.schema.field("v").type == pa.int64()
    kind.check(made, ROWS)
    kind.check(made.update({"v": str(1 << 40)}, "id = 1"), [(1, "a", 1 << 40), *ROWS[1:]])


def test_alter_column_type_that_loses_values(kind: Kind, dataset: Any) -> None:
    with pytest.raises(InvalidInputError):
        dataset.alter_column("v", data_type=pa.int8())
    kind.check(dataset, ROWS)


def test_alter_column_to_forbid_nulls(kind: Kind, dataset: Any) -> None:
    made = dataset.alter_column("id", nullable=False)
    assert not made.schema.field("id").nullable
    kind.check(made, ROWS)
    with pytest.raises(InvalidInputError):
        made.update({"id": None}, "id = 1")


def test_alter_column_with_nulls_to_forbid_them(kind: Kind, dataset: Any) -> None:
    with pytest.raises(InvalidInputError, match="null"):
        dataset.alter_column("v", nullable=False)
    kind.check(dataset, ROWS)


def test_alter_column_name_and_comment(kind: Kind, dataset: Any) -> None:
    made = dataset.alter_column("v", name="w", comment="a number", metadata={"unit": "kg"})
    assert made.schema.names == ["id", "p", "w"]
    assert made.lance_schema.fields[2].metadata == {"comment": b"a number", "unit": b"kg"}
    kind.check(made, ROWS)


def test_alter_unknown_column(dataset: Any) -> None:
    with pytest.raises(NotFoundError, match="missing"):
        dataset.alter_column("missing", name="x")


def test_merge_after_added_column(kind: Kind, dataset: Any) -> None:
    made = dataset.add_columns(NOTE).merge(table_of((1, "a", 11), (6, "a", 60)), "id")
    kind.check(made, [(1, "a", 11, None), *[(*row, None) for row in ROWS[1:]], (6, "a", 60, None)])


def test_update_field_metadata(kind: Kind, dataset: Any) -> None:
    made = dataset.update_field_metadata({"v": {"unit": "kg", "old": "1"}, "id": {"k": "x"}})
    made = made.update_field_metadata({"v": {"old": None}, "id": {"l": "y"}}, replace=False)
    fields = {field.name: dict(field.metadata) for field in kind.open(made).lance_schema.fields}
    assert (fields["v"], fields["id"]) == ({"unit": b"kg"}, {"k": b"x", "l": b"y"})
    made = made.update_field_metadata({"id": {"m": "z"}}, replace=True)
    assert dict(made.lance_schema.fields[0].metadata) == {"m": b"z"}
    kind.check(made, ROWS)
    with pytest.raises(NotFoundError, match="nope"):
        made.update_field_metadata({"nope": {"k": "v"}})
