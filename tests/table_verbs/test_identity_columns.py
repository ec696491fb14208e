"""Identity columns: no two rows get one value, whichever verb writes them, and whoever else writes."""

from __future__ import annotations

from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, RetryableConflictError, UnsupportedFeatureError
from lance_spark.schema.generated import IDENTITY, Identity
from lance_spark.spark.jobs.backfill_job import plan_values
from lance_spark.table.manifests.marks import IDENTITY_PREFIX
from lance_spark.table.writing.identity import IdentityColumns
from tests.table_verbs.kinds import Kind, Plain

ALWAYS = Identity(10, 5, False, "always")
BY_DEFAULT = Identity(-1, -1, True, "default")


def rows(*labels: str, **others: Any) -> pa.Table:
    """New rows; the column `p` decides on the partition."""
    return pa.table(
        {"p": pa.array([label[:1] for label in labels]), "v": pa.array(range(len(labels)), pa.int32()), **others}
    )


def define(dataset: Any, identity: Identity) -> Any:
    return dataset.update_field_metadata({"id": {IDENTITY: identity.to_bytes().decode()}})


@pytest.fixture
def made(kind: Kind) -> Any:
    return define(kind.create(), ALWAYS)


def ids(dataset: Any) -> list[int]:
    found: list[int] = sorted(dataset.newest().to_table()["id"].to_pylist())
    return found


def test_appends_continue(made: Any) -> None:
    first = made.append(rows("a", "b", "a"))
    assert ids(first) == [10, 15, 20]
    # A handle of an older version: its values are used, so its rows must not be committed with them.
    with pytest.raises(RetryableConflictError, match="identity column 'id'"):
        made.append(rows("c"))
    assert ids(first.append(rows("c"))) == [10, 15, 20, 25]
    null = pa.array([None], pa.int64())
    assert ids(first.newest().append(rows("d", id=null))) == [10, 15, 20, 25, 30]
    assert ids(first.newest().append(rows("d", id=pa.nulls(1)))) == [10, 15, 20, 25, 30, 35]


def test_rows_of_an_append_are_in_order(made: Any) -> None:
    batches = [batch for n in range(5) for batch in rows(*["a"] * 3, w=pa.array([n] * 3)).drop(["w"]).to_batches()]
    made.append(pa.Table.from_batches(batches).to_reader(2))
    assert ids(made) == [10 + 5 * n for n in range(15)]


def test_values_that_are_given_are_refused(made: Any) -> None:
    with pytest.raises(InvalidInputError, match="GENERATED ALWAYS; leave the column out"):
        made.append(rows("a", "b", id=pa.array([1, None], pa.int64())))
    made = made.append(rows("a"))
    with pytest.raises(InvalidInputError, match="GENERATED ALWAYS, so its values cannot be changed"):
        made.update({"id": "7"}, "true")
    with pytest.raises(InvalidInputError, match="GENERATED ALWAYS, so its values cannot be changed"):
        made.merge(rows("a", id=pa.array([7], pa.int64())), "v")
    assert ids(made) == [10]


def test_columns_that_are_filled_in(made: Any) -> None:
    made = made.append(rows("a"))
    with pytest.raises(UnsupportedFeatureError, match="is an identity column"):
        plan_values(made, ["id"])


def test_given_values(kind: Kind) -> None:
    made = define(kind.create(), BY_DEFAULT)
    made = made.append(rows("a", "b", "c", id=pa.array([None, 40, None], pa.int64())))
    assert ids(made) == [-2, -1, 40]
    made = made.update({"id": "41"}, "id = 40")
    assert ids(made.append(rows("d"))) == [-3, -2, -1, 41]


def test_rows_without_a_value_stay_changeable(kind: Kind) -> None:
    """Other libraries write NULL. Such rows are old ones, and keep what they have."""
    made = define(kind.create((None, "a", 1), (3, "b", 2)), ALWAYS).update({"v": "7"}, "p = 'a'").sync_identity()
    made = made.merge(pa.table({"p": ["a", "b", "c"], "v": pa.array([7, 2, 9], pa.int32())}), "v")
    assert sorted(row["id"] or 0 for row in made.to_table().to_pylist()) == [0, 3, 10]


def test_given_values_are_counted_on_request(kind: Kind) -> None:
    made = define(kind.create(), BY_DEFAULT).append(rows("a", "b", id=pa.array([-1, -7], pa.int64())))
    made = made.sync_identity()
    assert ids(made.append(rows("c"))) == [-8, -7, -1]
    again = made.newest()
    assert again.sync_identity().version == again.version


def test_updates_and_merges_keep_values(made: Any) -> None:
    made = made.append(rows("a", "b"))
    made = made.update({"v": "v + 10"}, "true")
    assert ids(made) == [10, 15]
    source = pa.table({"p": ["a", "x", "y"], "v": pa.array([10, 1, 2], pa.int32())})
    made = made.merge(source, "v")
    assert ids(made) == [10, 15, 20, 25]
    found = {row["v"]: row["id"] for row in made.to_table().to_pylist()}
    assert (found[10], found[11]) == (10, 15)


def test_overwritten_rows_do_not_free_values(made: Any) -> None:
    made = made.append(rows("a", "b")).overwrite(rows("c"))
    assert ids(made) == [20]
    made = made.replace_where(rows("c", "c"), "p = 'c'")
    assert ids(made) == [25, 30]
    made = made.delete("true")
    assert ids(made.append(rows("a"))) == [35]


def test_restored_version_keeps_the_count(made: Any) -> None:
    first = made.append(rows("a"))
    second = first.append(rows("b", "c"))
    restored = second.restore(first.version)
    assert ids(restored) == [10]
    assert ids(restored.append(rows("d"))) == [10, 25]


def test_renamed_column_continues(made: Any) -> None:
    made = made.append(rows("a")).rename_columns({"id": "key"})
    made = made.append(rows("b"))
    assert sorted(made.to_table()["key"].to_pylist()) == [10, 15]


def test_other_types_are_refused(made: Any) -> None:
    with pytest.raises(InvalidInputError, match="cannot become double"):
        made.alter_column("id", data_type=pa.float64())
    with pytest.raises(InvalidInputError, match="only INT and BIGINT"):
        made.update_field_metadata({"p": {IDENTITY: ALWAYS.to_bytes().decode()}}).append(rows("a"))


def test_no_more_values(kind: Kind) -> None:
    made = define(kind.create(), Identity(2**63 - 2, 1, False, "big")).append(rows("a", "b"))
    with pytest.raises(InvalidInputError, match="has no more values"):
        made.append(rows("c"))
    assert ids(made) == [2**63 - 2, 2**63 - 1]


def test_rows_of_an_unknown_count_are_refused(kind: Kind) -> None:
    made = define(kind.create((1, "a", 1), (7, "b", 2)), Identity(1, 3, True, "foreign"))
    with pytest.raises(InvalidInputError, match="CALL system"):
        made.append(rows("c"))
    made = made.update({"v": "3"}, "true").sync_identity()
    assert ids(made.append(rows("c"))) == [1, 7, 10]


@pytest.mark.parametrize("text", ["{}", "x", '{"start": 1, "step": 0, "explicit": true, "key": "a"}'])
def test_damaged_descriptions_stop_writes_only(kind: Kind, text: str) -> None:
    made = kind.create((1, "a", 1))
    if not isinstance(kind, Plain):
        with pytest.raises(InvalidInputError, match="metadata of the identity column 'id'"):
            made.update_field_metadata({"id": {IDENTITY: text}})
        return
    made = made.update_field_metadata({"id": {IDENTITY: text}})
    assert ids(made) == [1]
    with pytest.raises(InvalidInputError, match="metadata of the identity column 'id'"):
        made.append(rows("c"))


def test_copies_have_plain_columns(made: Any, tmp_path: Any) -> None:
    made = made.append(rows("a", "b"))
    copy = lance_spark.write(made.to_table(), str(tmp_path / "copy"))
    copy = copy.append(pa.table({"id": [10], "p": ["z"], "v": pa.array([1], pa.int32())}))
    assert ids(copy) == [10, 10, 15]
    with pytest.raises(InvalidInputError, match="identity column 'id'"):
        made.append(made.to_table())


@pytest.mark.parametrize("stable", [False, True])
def test_damaged_count(stable: bool) -> None:
    """Of a plain table: no verb changes the config of the `__manifest` of a partitioned one."""
    made = (
        define(Plain(stable_row_ids=stable).create(), ALWAYS)
        .append(rows("a"))
        .update_config({IDENTITY_PREFIX + "always": "-3"})
    )
    with pytest.raises(InvalidInputError, match="no count of used values"):
        made.append(rows("b"))
    made = made.update_config({IDENTITY_PREFIX + "always": None}).sync_identity()
    assert ids(made.append(rows("b"))) == [10, 15]


def test_reference_reads_and_keeps_the_count(tmp_path: Any) -> None:
    uri = str(tmp_path / "t")
    schema = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.int32())])
    made = define(lance_spark.write(schema.empty_table(), uri), ALWAYS).append(rows("a", "b"))
    reference = lance.dataset(uri)
    assert reference.to_table()["id"].to_pylist() == [10, 15]
    reference.delete("id = 10")
    reference.optimize.compact_files()
    reference.update_config({"other": "1"})
    made = made.newest().append(rows("c"))
    assert ids(made) == [15, 20]
    lance.write_dataset(pa.table({"id": [90], "p": ["x"], "v": pa.array([1], pa.int32())}), uri, mode="append")
    assert ids(made.sync_identity().append(rows("d"))) == [15, 20, 90, 95]


def test_tasks_never_take_one_number() -> None:
    field = lance_spark.schema.arrow.from_arrow_schema(
        pa.schema([pa.field("id", pa.int32(), metadata={IDENTITY: ALWAYS.to_bytes()})])
    )
    columns = IdentityColumns.of(field, {IDENTITY_PREFIX + "always": "7"}, lambda: True)
    taken, used = [], []
    for task, sizes in enumerate(([3, 1], [], [2])):
        values = columns.values(task, 3)
        for size in sizes:
            taken += values(pa.RecordBatch.from_arrays([pa.nulls(size, pa.int32())], names=["id"]))["id"].to_pylist()
        used.append(values.used())
    numbers = sorted((value - 10) // 5 for value in taken)
    assert numbers == [7, 9, 10, 12, 13, 16]
    mark = columns.mark(used)
    assert mark is not None
    assert mark.entries() == {IDENTITY_PREFIX + "always": "17"}
    with pytest.raises(InvalidInputError, match="two tasks"):
        columns.mark([used[0], used[0]])
