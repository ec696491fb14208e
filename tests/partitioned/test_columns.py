"""Columns of a partitioned table: all partitions change with one version, and mean the same for the reference."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_spark.errors import InvalidInputError, LanceError, NotFoundError, RetryableConflictError, StorageError
from lance_spark.namespace.directory.catalog_table import CatalogTable
from lance_spark.partitioned.columns import add_columns, alter_column
from lance_spark.partitioned.evolution import drop_partition_field
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.table import PartitionedTable, open_partitioned
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.storage.overlap import overlapped
from lance_spark.table.columns.alter_column import Alteration
from tests.partitioned.fixtures import SCHEMA, by_reference, files, ids, rows, shown
from tests.partitioned.verbs import drop_columns, rename_columns, reorder_columns, save_rows, update_rows


def check(table: PartitionedTable) -> None:
    assert shown(table) == by_reference(table) == shown(open_partitioned(table.root))


def test_columns_are_added(table: PartitionedTable) -> None:
    before = shown(table)
    made = add_columns(table, [pa.field("note", pa.string()), pa.field("s", pa.struct([("a", pa.int32())]))])
    assert made.version == table.version + 1
    assert shown(made) == [{**row, "note": None, "s": None} for row in before]
    made = add_columns(made, [pa.field("s.b", pa.int64())])
    assert made.schema.field("s").type == pa.struct([("a", pa.int32()), ("b", pa.int64())])
    check(made)
    new = pa.Table.from_pylist([{**rows(5).to_pylist()[0], "note": "x", "s": {"a": 1, "b": 2}}], made.schema)
    made = save_rows(made, new)
    assert made.to_table(["note", "s"], "id = 5").to_pylist() == [{"note": "x", "s": {"a": 1, "b": 2}}]
    check(made)
    assert shown(open_partitioned(table.root, version=table.version)) == before


def test_a_dropped_column_does_not_come_back(table: PartitionedTable) -> None:
    made = drop_columns(table, ["n"])
    assert made.schema.names == ["id", "country", "ts", "x"]
    check(made)
    again = add_columns(made, [pa.field("n", pa.int32())])
    assert again.to_table(["n"])["n"].to_pylist() == [None] * 4
    assert again.lance_schema.fields[-1].id == 5
    check(again)
    later = add_columns(drop_columns(again, ["n"]), [pa.field("m", pa.string())])
    assert later.lance_schema.fields[-1].id == 6


def test_a_column_that_came_and_went_meanwhile(table: PartitionedTable) -> None:
    between = update_rows(add_columns(table, [pa.field("gone", pa.int32())]), {"gone": "n"})
    between = drop_columns(between, ["gone"])
    assert between.specs.to_metadata() == table.specs.to_metadata()
    made = add_columns(table, [pa.field("new", pa.int32())])
    assert made.to_table(["new"])["new"].null_count == 4
    check(made)


def test_columns_are_renamed_and_reordered(table: PartitionedTable) -> None:
    made = rename_columns(table, {"x": "n", "n": "x"})
    assert made.to_table(["x", "n"], "id = 3").to_pylist() == [{"x": 3, "n": 0.5}]
    made = reorder_columns(made, ["ts", "n"])
    assert made.schema.names == ["ts", "n", "id", "country", "x"]
    check(made)
    made = rename_columns(made, {"country": "land"})
    assert ids(made, "land = 'at'") == [1, 2]
    assert len(made.partitions("land = 'at'")) == 1
    check(save_rows(made, rows(5).select(["id"]).append_column("land", pa.array(["at"]))))
    assert len(made.newest().partitions()) == 3


def test_columns_are_altered(table: PartitionedTable) -> None:
    made = alter_column(table, Alteration("x", comment="how much"))
    assert made.lance_schema.fields[3].metadata["comment"] == b"how much"
    made = alter_column(made, Alteration("x", nullable=False))
    assert not made.schema.field("x").nullable
    with pytest.raises(InvalidInputError):
        save_rows(made, rows(5, x=None))
    with pytest.raises(InvalidInputError):
        alter_column(made, Alteration("country", nullable=False))
    assert made.newest().version == made.version
    made = alter_column(made, Alteration("x", nullable=True))
    made = save_rows(made, rows(5, x=None))
    check(made)
    assert alter_column(made, Alteration("x", nullable=True)).version == made.version


def test_a_type_becomes_wider(table: PartitionedTable) -> None:
    made = alter_column(table, Alteration("n", name="number", data_type=pa.int64(), comment="wide"))
    assert made.schema.field("number").type == pa.int64()
    assert [row["number"] for row in shown(made)] == [1, 2, 3, 4]
    check(made)
    late = pa.Table.from_pylist([{"id": 6, "country": "ch", "number": 1 << 40}])
    made = save_rows(made, late.cast(pa.schema([SCHEMA.field("id"), ("country", pa.string()), ("number", pa.int64())])))
    assert made.to_table(["number"], "id = 6")["number"].to_pylist() == [1 << 40]
    check(made)
    with pytest.raises(InvalidInputError):
        alter_column(made, Alteration("number", data_type=pa.int8()))
    assert shown(open_partitioned(table.root, version=table.version)) == shown(table)


def test_the_type_of_a_partition_source_stays(root: str) -> None:
    table = create_partitioned(root, SCHEMA, [PartitionBy("n", ("n",), Identity())])
    table = drop_partition_field(save_rows(table, rows(1)), "n")
    with pytest.raises(InvalidInputError, match="partition field 'n'"):
        alter_column(table, Alteration("n", data_type=pa.int64()))


def test_a_partition_source_is_dropped(table: PartitionedTable) -> None:
    made = drop_columns(table, ["country"])
    assert ids(made) == [1, 2, 3, 4]
    made = save_rows(made, rows(5).drop_columns(["country"]))
    assert len(made.partitions()) == 3
    assert ids(made) == [1, 2, 3, 4, 5]
    moved = update_rows(made, {"x": 2.5}, "id = 3")
    assert moved.to_table(["x"], "id = 3")["x"].to_pylist() == [2.5]
    assert ids(moved) == [1, 2, 3, 4, 5]
    assert ids(save_rows(drop_partition_field(moved, "country"), rows(6).drop_columns(["country"]))) == list(
        range(1, 7)
    )
    check(moved.newest())


def test_the_last_member_of_a_struct_that_tells_of_nulls(root: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int32())]))])
    table = create_partitioned(root, schema, [PartitionBy("id", ("id",), Identity())])
    given = [{"id": 1, "s": None}, {"id": 2, "s": {"a": 5}}]
    table = add_columns(save_rows(table, pa.Table.from_pylist(given, schema)), [pa.field("s.b", pa.int64())])
    made = drop_columns(table, ["s.a"])
    assert shown(made) == [{"id": 1, "s": None}, {"id": 2, "s": {"b": None}}]
    check(made)


def test_invalid_arguments_are_refused(table: PartitionedTable) -> None:
    with pytest.raises(InvalidInputError):
        add_columns(table, [pa.field("x", pa.string())])
    with pytest.raises(InvalidInputError):
        add_columns(table, [pa.field("y", pa.string(), nullable=False)])
    with pytest.raises(NotFoundError):
        drop_columns(table, ["y"])
    assert table.newest().version == table.version


def test_a_writer_that_has_planned_with_other_columns(table: PartitionedTable) -> None:
    made = rename_columns(table, {"n": "m"})
    with pytest.raises(RetryableConflictError):
        save_rows(table, rows(5))
    assert shown(made.newest()) == shown(made)
    commented = alter_column(made, Alteration("m", comment="c"))
    assert ids(save_rows(made, rows(5).rename_columns(["id", "country", "ts", "x", "m"]))) == [1, 2, 3, 4, 5]
    assert commented.newest().lance_schema.fields[-1].metadata["comment"] == b"c"


@pytest.mark.parametrize("wide", [False, True])
def test_writers_and_a_change_of_columns_at_once(table: PartitionedTable, wide: bool) -> None:
    def act(number: int) -> int | None:
        if number == 2:
            if wide:
                alter_column(table, Alteration("n", data_type=pa.int64()))
            else:
                drop_columns(table, ["x"])
            return None
        try:
            save_rows(table, pa.concat_tables([rows(10 + number), rows(20 + number, country=f"c{number}")]))
        except RetryableConflictError:
            return None
        return number

    done = [number for number in overlapped(act, range(5), 5) if number is not None]
    made = table.newest()
    assert ids(made) == sorted([1, 2, 3, 4, *(10 + number for number in done), *(20 + number for number in done)])
    assert made.to_table(["n"])["n"].to_pylist().count(None) == 0
    assert {row["n"] == row["id"] for row in shown(made)} == {True}
    check(made)


def test_two_changes_of_columns_at_once(table: PartitionedTable) -> None:
    def act(number: int) -> None:
        add_columns(table, [pa.field(f"c{number}", pa.int32())])

    overlapped(act, range(4), 4)
    made = table.newest()
    assert set(made.schema.names) == {*SCHEMA.names, "c0", "c1", "c2", "c3"}
    assert len({field.id for field in made.lance_schema.fields}) == 9
    check(made)


@pytest.mark.parametrize("wide", [False, True])
def test_a_change_that_fails_leaves_nothing(
    table: PartitionedTable, wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(table.root)

    def fails(*_: object, **__: object) -> None:
        raise StorageError("the store is down")

    monkeypatch.setattr(CatalogTable, "replace_rows", fails)
    with pytest.raises(LanceError):
        alter_column(table, Alteration("n", data_type=pa.int64() if wide else None, name="m"))
    monkeypatch.undo()
    assert files(table.root) == before
