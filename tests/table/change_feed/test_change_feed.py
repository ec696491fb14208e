"""The feed of changes: what each kind of operation gives, and that applying the feed to a version gives a later one."""

from __future__ import annotations

import pickle
import struct
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lance_spark
from lance_spark.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.table.change_feed.change_feed import CHANGE_FIELDS, plan_changes
from lance_spark.table.change_feed.version_range import VersionRange
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.history import History
from tests.support.counting_store import CountingStore

SIGNS = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}
SYSTEM = [field.name for field in CHANGE_FIELDS]


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64()), "b": pa.array([f"v{value}" for value in values])})


def feed(uri: str, start: int, end: int | None = None, **options: Any) -> pa.Table:
    plan = lance_spark.open(uri).plan_changes(start, end, **options)
    return pa.Table.from_batches(plan.batches(), schema=plan.schema)


def told(table: pa.Table, *columns: str) -> list[tuple[Any, ...]]:
    """(version, change, values of `columns`), sorted."""
    wanted = table.select(["_commit_version", "_change_type", *columns])
    return sorted((tuple(row.values()) for row in wanted.to_pylist()), key=repr)


def frozen(value: Any) -> Any:
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, dict):
        return tuple((key, frozen(item)) for key, item in value.items())
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def content(table: pa.Table) -> Counter[Any]:
    return Counter(frozen(row) for row in table.to_pylist())


def applied(before: Counter[Any], changes: pa.Table) -> Counter[Any]:
    """`before` after `changes`; what is taken away must be there."""
    now = Counter(before)
    versions = changes["_commit_version"].to_pylist()
    assert versions == sorted(versions)
    data = changes.drop_columns(SYSTEM).to_pylist()
    for row, change in zip(data, changes["_change_type"].to_pylist(), strict=True):
        now[frozen(row)] += SIGNS[change]
        assert now[frozen(row)] >= 0
    return +now


def add_where(dataset: lance.LanceDataset, name: str, holds: Callable[[Any], Any]) -> None:
    """A column that is 1 where `holds` says so of column a, and null elsewhere."""

    @lance.batch_udf()  # type: ignore[untyped-decorator]
    def column(batch: pa.RecordBatch) -> pa.RecordBatch:
        ones = pa.array([1] * batch.num_rows, pa.int64(), mask=~holds(batch["a"].to_numpy()))
        return pa.record_batch({name: ones})

    dataset.add_columns(column, read_columns=["a"])


@pytest.fixture(params=[False, True], ids=["addresses", "stable ids"])
def stable(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def uri(tmp_path: Path, stable: bool) -> str:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(*range(6)), uri, max_rows_per_file=4, enable_stable_row_ids=stable)
    return uri


def test_the_columns_of_the_feed(uri: str) -> None:
    table = feed(uri, 1)
    assert table.schema.names == ["a", "b", "_change_type", "_commit_version", "_commit_timestamp"]
    assert table.schema.types[2:] == [pa.string(), pa.int64(), pa.timestamp("us", "UTC")]
    timestamp = table["_commit_timestamp"][0].as_py()
    assert timestamp.astimezone(timezone.utc) == lance_spark.open(uri).timestamp
    assert told(table, "a", "b") == [(1, "insert", value, f"v{value}") for value in range(6)]


@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_append_delete_overwrite(uri: str, writer: str) -> None:
    if writer == "ours":
        lance_spark.write(rows(6), uri, mode="append").delete("a in (1, 2)").delete("a >= 4")
        lance_spark.write(rows(9), uri, mode="overwrite")
    else:
        lance.write_dataset(rows(6), uri, mode="append")
        lance.dataset(uri).delete("a in (1, 2)")
        lance.dataset(uri).delete("a >= 4")
        lance.write_dataset(rows(9), uri, mode="overwrite")
    assert told(feed(uri, 2), "a", "b") == [
        (2, "insert", 6, "v6"),
        (3, "delete", 1, "v1"),
        (3, "delete", 2, "v2"),
        (4, "delete", 4, "v4"),
        (4, "delete", 5, "v5"),
        (4, "delete", 6, "v6"),
        (5, "delete", 0, "v0"),
        (5, "delete", 3, "v3"),
        (5, "insert", 9, "v9"),
    ]


def test_an_update_is_one_where_rows_are_known(uri: str, stable: bool) -> None:
    lance.dataset(uri).update({"b": "'new'"}, where="a = 2 or a = 5")
    types = ("update_preimage", "update_postimage") if stable else ("delete", "insert")
    assert told(feed(uri, 2), "a", "b") == sorted(
        [(2, types[0], 2, "v2"), (2, types[0], 5, "v5"), (2, types[1], 2, "new"), (2, types[1], 5, "new")], key=repr
    )


def test_a_merge_updates_and_inserts(uri: str, stable: bool) -> None:
    source = pa.table({"a": pa.array([1, 20], pa.int64()), "b": ["x", "y"]})
    lance.dataset(uri).merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(source)
    types = ("update_preimage", "update_postimage") if stable else ("delete", "insert")
    assert told(feed(uri, 2), "a", "b") == sorted(
        [(2, types[0], 1, "v1"), (2, types[1], 1, "x"), (2, "insert", 20, "y")], key=repr
    )


def test_our_updates_and_merges(uri: str, stable: bool) -> None:
    dataset = lance_spark.open(uri).update({"b": "'new'"}, "a = 2").compact()
    dataset.merge(pa.table({"a": pa.array([1, 20], pa.int64()), "b": ["x", "y"]}), "a")
    types = ("update_preimage", "update_postimage") if stable else ("delete", "insert")
    last = lance_spark.open(uri).version
    assert told(feed(uri, 2), "a", "b") == sorted(
        [
            (2, types[0], 2, "v2"),
            (2, types[1], 2, "new"),
            (last, types[0], 1, "v1"),
            (last, types[1], 1, "x"),
            (last, "insert", 20, "y"),
        ],
        key=repr,
    )


def test_what_changes_no_row(uri: str) -> None:
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("b", "BTREE")
    dataset.update_config({"k": "v"})
    dataset.add_columns(pa.field("c", pa.float32()))
    dataset.alter_columns({"path": "b", "name": "renamed"})
    dataset.alter_columns({"path": "c", "nullable": True})
    dataset.drop_columns(["c"])
    dataset.alter_columns({"path": "a", "data_type": pa.int32()})
    dataset.optimize.compact_files()
    dataset.delete("a = 100")
    assert lance_spark.open(uri).version > 8
    assert feed(uri, 2).num_rows == 0
    assert feed(uri, 1).schema.types[:2] == [pa.int32(), pa.string()]
    assert told(feed(uri, 1), "a", "renamed") == [(1, "insert", value, f"v{value}") for value in range(6)]


def test_a_compaction_after_deletes(uri: str) -> None:
    lance.dataset(uri).delete("a = 1 or a = 4")
    lance.dataset(uri).optimize.compact_files()
    lance_spark.open(uri).delete("a = 2")
    assert told(feed(uri, 2), "a") == [(2, "delete", 1), (2, "delete", 4), (5, "delete", 2)]


def test_columns_that_are_computed_or_rewritten(uri: str) -> None:
    dataset = lance.dataset(uri)
    dataset.delete("a = 3")
    add_where(dataset, "c", lambda values: values % 2 == 0)
    assert told(feed(uri, 3), "a", "c") == sorted(
        [(3, "update_preimage", value, None) for value in (0, 2, 4)]
        + [(3, "update_postimage", value, 1) for value in (0, 2, 4)],
        key=repr,
    )


def test_a_data_replacement(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path / "t")
    dataset = lance.write_dataset(
        pa.table({"a": pa.array([1, 2, 3, 4], pa.int64())}), uri, enable_stable_row_ids=stable
    )
    dataset.delete("a = 4")
    replacement = lance.write_dataset(pa.table({"a": pa.array([1, 20, 3, 40], pa.int64())}), str(tmp_path / "other"))
    (fragment,) = replacement.get_fragments()
    (file,) = fragment.data_files()
    Path(uri, "data", file.path).write_bytes(Path(tmp_path, "other", "data", file.path).read_bytes())
    operation = lance.LanceOperation.DataReplacement([lance.LanceOperation.DataReplacementGroup(0, file)])
    lance.LanceDataset.commit(uri, operation, read_version=2)
    assert lance.dataset(uri).to_table()["a"].to_pylist() == [1, 20, 3]
    assert told(feed(uri, 3), "a") == sorted([(3, "update_preimage", 2), (3, "update_postimage", 20)], key=repr)
    lance.dataset(uri, version=2).restore()
    assert told(feed(uri, 4), "a") == sorted([(4, "update_preimage", 20), (4, "update_postimage", 2)], key=repr)


def test_a_rewritten_column(uri: str) -> None:
    dataset = lance.dataset(uri)
    dataset.delete("a = 1")
    fragment = lance.dataset(uri).get_fragments()[0]
    source = pa.table({"_rowaddr": pa.array([0, 2], pa.uint64()), "b": ["new", "v2"]})
    updated, fields = fragment.update_columns(source, left_on="_rowaddr", right_on="_rowaddr")
    operation = lance.LanceOperation.Update(
        updated_fragments=[updated], fields_modified=fields, update_mode="rewrite_columns"
    )
    lance.LanceDataset.commit(uri, operation, read_version=2)
    assert sorted(lance.dataset(uri).to_table()["b"].to_pylist()) == ["new", "v2", "v3", "v4", "v5"]
    expected = [(3, "update_postimage", 0, "new"), (3, "update_preimage", 0, "v0")]
    assert told(feed(uri, 3), "a", "b") == expected


def test_a_restore_gives_the_difference(uri: str, stable: bool) -> None:
    lance_spark.open(uri).delete("a = 1")
    lance_spark.write(rows(7), uri, mode="append").restore(1)
    assert told(feed(uri, 4), "a") == [(4, "delete", 7), (4, "insert", 1)]
    lance.dataset(uri).update({"b": "'new'"}, where="a = 2")
    lance.dataset(uri).optimize.compact_files()
    lance_spark.open(uri).restore(1)
    after = told(feed(uri, 8), "a", "b")
    if stable:
        assert after == sorted([(8, "update_preimage", 2, "new"), (8, "update_postimage", 2, "v2")], key=repr)
    assert applied(content(lance.dataset(uri, version=7).to_table()), feed(uri, 8)) == content(
        lance.dataset(uri).to_table()
    )


def test_ranges(uri: str) -> None:
    for value in (6, 7, 8):
        lance_spark.write(rows(value), uri, mode="append")

    def values(*arguments: int, **options: bool) -> list[int]:
        return feed(uri, *arguments, **options)["a"].to_pylist()  # type: ignore[no-any-return]

    assert values(2, 3) == [6, 7]
    assert values(2) == [6, 7, 8]
    assert values(2, from_inclusive=False) == [7, 8]
    assert values(2, 4, to_inclusive=False) == [6, 7]
    assert values(0, from_inclusive=False) == [*range(6), 6, 7, 8]
    assert values(3, 3, from_inclusive=False) == []
    assert values(3, 3, to_inclusive=False) == []
    assert values(1, 1, to_inclusive=False) == []
    dataset = lance_spark.open(uri, version=2)
    assert pa.Table.from_batches(dataset.changes(2))["a"].to_pylist() == [6]
    for start, end in ((0, 2), (3, 2), (-1, 2), (True, 2), (1, 1 << 63)):
        with pytest.raises(InvalidInputError):
            dataset.plan_changes(start, end)
    with pytest.raises(NotFoundError, match="version 5"):
        dataset.plan_changes(2, 5)
    with pytest.raises(NotFoundError, match=str(1 << 40)):  # and takes no memory for the versions between
        dataset.plan_changes(2, 1 << 40)


def test_ranges_by_time(uri: str) -> None:
    for value in (6, 7):
        lance_spark.write(rows(value), uri, mode="append")
    times = [entry.timestamp for entry in lance_spark.open(uri).versions()]
    dataset, moment = lance_spark.open(uri), timedelta(microseconds=1)

    def values(start: datetime | int, end: datetime | int | None = None, **options: bool) -> list[int]:
        plan = dataset.plan_changes(start, end, **options)
        return pa.Table.from_batches(plan.batches(), plan.schema)["a"].to_pylist()  # type: ignore[no-any-return]

    assert values(times[1], times[2]) == [6, 7]
    assert values(times[1], times[2], from_inclusive=False) == [7]
    assert values(times[1], times[2], to_inclusive=False) == [6]
    assert values(times[1] + moment, 3) == [7]
    assert values(2, times[2] - moment) == [6]
    assert values(datetime(2001, 1, 1)) == [*range(6), 6, 7]
    assert values(times[2] + moment) == []
    assert values(times[2] + moment, datetime.now()) == []
    assert values(times[1] - moment, times[1] - moment) == []
    with pytest.raises(InvalidInputError, match="no versions"):
        values(times[2], times[1])
    with pytest.raises(NotFoundError, match="or before"):
        values(1, datetime(2001, 1, 1))


def test_planning_reads_no_rows(uri: str) -> None:
    for value in (6, 7, 8):
        lance_spark.write(rows(value), uri, mode="append")
    location = TableLocation(uri)
    store = CountingStore(location.store)
    location.store, location.history = store, History(store)
    plan = plan_changes(location, VersionRange(3, 4))
    assert store.counts.read_requests == 3
    assert [task.num_rows for task in plan.tasks] == [1, 1]


def test_versions_that_are_gone(uri: str) -> None:
    for value in (6, 7, 8):
        lance_spark.write(rows(value), uri, mode="append")
    Path(uri, TableLocation(uri).history.latest_location().path).with_name("18446744073709551613.manifest").unlink()  # type: ignore[union-attr]
    assert feed(uri, 4)["a"].to_pylist() == [8]
    for start in (1, 2, 3):
        with pytest.raises(NotFoundError, match="version 2"):
            lance_spark.open(uri).changes(start)


def test_columns(uri: str) -> None:
    lance_spark.open(uri).delete("a = 5")
    assert feed(uri, 2, columns=["b"]).drop_columns(SYSTEM).to_pydict() == {"b": ["v5"]}
    assert feed(uri, 2, columns=[]).num_rows == 1
    assert feed(uri, 2, columns=["_rowaddr", "a"]).drop_columns(SYSTEM).to_pydict() == {
        "_rowaddr": [(1 << 32) + 1],
        "a": [5],
    }
    with pytest.raises(NotFoundError, match="'c'"):
        lance_spark.open(uri).changes(1, columns=["c"])


def test_the_row_id_stays_through_updates(uri: str, stable: bool) -> None:
    lance.dataset(uri).update({"b": "'new'"}, where="a = 2")
    found = feed(uri, 2, columns=["_rowid"])["_rowid"].to_pylist()
    assert found == ([2, 2] if stable else [2, 2 << 32])


def test_a_column_with_a_name_of_the_feed(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(pa.table({"_change_type": ["x"], "a": [1]}), uri)
    with pytest.raises(InvalidInputError, match="_change_type"):
        lance_spark.open(uri).changes(1)
    assert feed(uri, 1, columns=["a"])["_change_type"].to_pylist() == ["insert"]


def test_tasks_travel(uri: str) -> None:
    lance.dataset(uri).update({"b": "'new'"}, where="a = 2")
    lance.dataset(uri).add_columns({"c": "a * 2"})
    plan = lance_spark.open(uri).plan_changes(1)
    again = pickle.loads(pickle.dumps(plan))
    assert again.schema == plan.schema
    assert [pa.Table.from_batches(task.batches(), plan.schema) for task in again.tasks] == [
        pa.Table.from_batches(task.batches(), plan.schema) for task in plan.tasks
    ]
    for task in plan.tasks:
        assert task.num_rows is not None
        assert sum(batch.num_rows for batch in task.batches()) <= task.num_rows


def test_a_branch(uri: str) -> None:
    branch = lance_spark.open(uri).create_branch("b").delete("a = 1")
    assert told(pa.Table.from_batches(branch.changes(1)), "a") == [(2, "delete", 1)]
    assert list(branch.changes(1, 1)) == []
    with pytest.raises(InvalidInputError):
        branch.changes(0)
    lance_spark.write(rows(7), uri, mode="append")
    late = lance_spark.open(uri).create_branch("late")
    lance_spark.write(rows(8), uri, mode="append", branch="late")
    assert [batch["a"].to_pylist() for batch in lance_spark.open(uri, branch="late").changes(2)] == [[8]]
    with pytest.raises(NotFoundError, match="branch"):
        late.changes(1)


def test_a_version_that_does_not_tell_what_made_it(uri: str, stable: bool) -> None:
    lance.dataset(uri).optimize.compact_files()
    location = TableLocation(uri)
    file = location.history.load_latest()
    from lance_spark.table.manifests.manifest_file import ManifestFile

    path = location.history.latest_location().path  # type: ignore[union-attr]
    location.store.put(path, ManifestFile(file.manifest, None).encode())
    Path(uri, "_transactions", file.manifest.transaction_file).unlink()
    if stable:
        assert feed(uri, file.manifest.version).num_rows == 0
    else:
        with pytest.raises(UnsupportedFeatureError, match="does not name its operation"):
            lance_spark.open(uri).changes(file.manifest.version)


def test_columns_that_come_and_go(uri: str) -> None:
    dataset = lance.dataset(uri)
    dataset.drop_columns(["b"])
    dataset.add_columns(pa.field("b", pa.string()))
    dataset.add_columns(pa.field("z", pa.int64()))
    after = feed(uri, 1)
    assert content(lance.dataset(uri).to_table()) == applied(Counter(), after)
    assert after["b"].null_count == after["z"].null_count == 6
    dataset.drop_columns(["z"])
    dataset.add_columns({"y": "a"})
    assert content(lance.dataset(uri).to_table()) == applied(Counter(), feed(uri, 1))


def test_an_overwrite_gives_field_ids_anew(uri: str) -> None:
    lance.write_dataset(pa.table({"b": pa.array(["x"]), "a": pa.array([1], pa.int32())}), uri, mode="overwrite")
    table = feed(uri, 1)
    assert applied(Counter(), table) == content(lance.dataset(uri).to_table())
    assert told(table.slice(0, 6), "a", "b") == [(1, "insert", value, f"v{value}") for value in range(6)]
    lance.write_dataset(pa.table({"a": pa.array(["12"])}), uri, mode="overwrite")
    assert applied(Counter(), feed(uri, 1)) == content(lance.dataset(uri).to_table())
    lance.dataset(uri, version=1).restore()
    assert applied(Counter(), feed(uri, 1)) == content(lance.dataset(uri).to_table())


def test_values_that_do_not_fit_the_last_type(uri: str) -> None:
    lance.write_dataset(pa.table({"b": pa.array([1], pa.int64())}), uri, mode="overwrite")
    plan = lance_spark.open(uri).plan_changes(2)
    with pytest.raises(InvalidInputError, match="column 'b' is string in rows that version 2"):
        list(plan.batches())
    assert feed(uri, 2, columns=[])["_change_type"].to_pylist() == ["delete"] * 6 + ["insert"]


def test_nested_columns(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path / "t")
    table = pa.table(
        {
            "k": pa.array([1, 2, 3], pa.int64()),
            "s": pa.array([{"x": 1, "l": [1, None]}, None, {"x": None, "l": []}]),
            "f": pa.array([[1.0, float("nan")], None, [0.5, 0.0]], pa.list_(pa.float32(), 2)),
        }
    )
    dataset = lance.write_dataset(table, uri, enable_stable_row_ids=stable)
    dataset.drop_columns(["s.x"])
    dataset.add_columns({"twice": "k * 2"})
    dataset.update({"k": "k + 10"}, where="k = 3")
    assert applied(Counter(), feed(uri, 1)) == content(lance.dataset(uri).to_table())
    assert feed(uri, 4, columns=["s.l"]).num_rows == 2


@pytest.mark.slow
def test_many_pairs_and_fragments(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path / "t")
    count = 150_000
    table = pa.table({"a": pa.array(range(count), pa.int64())})
    dataset = lance.write_dataset(table, uri, max_rows_per_file=100_000, enable_stable_row_ids=stable)
    dataset.delete("a % 7 = 1")
    add_where(dataset, "b", lambda values: values % 50_000 == 0)
    assert told(feed(uri, 3, columns=["a", "b"]), "a", "b") == sorted(
        [
            (3, change, value, image)
            for value in (0, 50_000, 100_000)
            if value % 7 != 1
            for change, image in (("update_preimage", None), ("update_postimage", 1))
        ],
        key=repr,
    )
    dataset.update({"b": "2"}, where="a % 1000 = 0")
    assert feed(uri, 4).num_rows == 2 * sum(value % 7 != 1 for value in range(0, count, 1000))
    lance.dataset(uri, version=2).restore()
    assert applied(content(lance.dataset(uri, version=4).to_table(["a"])), feed(uri, 5)) == content(
        lance.dataset(uri).to_table()
    )


OURS = ["append", "delete", "restore", "overwrite", "update", "merge", "compact", "add null", "add", "drop", "rename"]
THEIRS = [*OURS, "widen"]


def step(uri: str, writer: str, what: str, number: int) -> None:
    """One version of a random history, if the operation fits the table."""
    own, committed = lance_spark.open(uri), lance.dataset(uri)
    table = pa.table({"a": pa.array([number, number + 1], pa.int64()), "b": [f"n{number}", None]})
    names, fits = committed.schema.names, committed.schema == table.schema
    by_us = writer == "ours"
    if what == "overwrite" or (what == "append" and fits):
        lance_spark.write(table, uri, mode=what) if by_us else lance.write_dataset(table, uri, mode=what)
    elif what == "delete":
        (own if by_us else committed).delete(f"a % 3 = {number % 3}")
    elif what == "restore":
        version = 1 + number % committed.version
        own.restore(version) if by_us else lance.dataset(uri, version=version).restore()
    elif what == "update":
        where = f"a % 2 = {number % 2}"
        own.update({"a": "a + 1"}, where) if by_us else committed.update({"a": "a + 1"}, where=where)
    elif what == "merge" and fits:
        source = pa.table({"a": pa.array([number % 10, 1000 + number], pa.int64()), "b": ["m", "i"]})
        unique = len(set(committed.to_table()["a"].to_pylist())) == committed.count_rows()
        if by_us and unique:
            own.merge(source, "a")
        elif unique:
            committed.merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(source)
    elif what == "compact":
        own.compact() if by_us else committed.optimize.compact_files()
    else:
        change_columns(own if by_us else committed, names, what, number % 3)


def change_columns(dataset: lance_spark.Dataset | lance.LanceDataset, names: list[str], what: str, number: int) -> None:
    added, renamed = f"c{number}", f"r{number}"
    if what == "add null" and added not in names:
        dataset.add_columns(pa.field(added, pa.int32()))
    elif what == "add" and added not in names:
        dataset.add_columns({added: "a * 2"})
    elif what == "drop" and len(names) > 1:
        dataset.drop_columns([names[-1]])
    elif what == "rename" and len(names) > 1 and renamed not in names:
        if isinstance(dataset, lance_spark.Dataset):
            dataset.rename_columns({names[-1]: renamed})
        else:
            dataset.alter_columns({"path": names[-1], "name": renamed})
    elif what == "widen":
        other = pa.int64() if dataset.schema.field("a").type == pa.int32() else pa.int32()
        dataset.alter_columns({"path": "a", "data_type": other})


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    stable=st.booleans(),
    steps=st.lists(
        st.tuples(
            st.one_of(
                st.tuples(st.just("ours"), st.sampled_from(OURS)), st.tuples(st.just("theirs"), st.sampled_from(THEIRS))
            ),
            st.integers(0, 50),
        ),
        min_size=1,
        max_size=8,
    ),
)
def test_applying_the_feed_gives_the_later_version(
    tmp_path_factory: pytest.TempPathFactory, stable: bool, steps: list[tuple[tuple[str, str], int]]
) -> None:
    uri = str(tmp_path_factory.mktemp("feed") / "t")
    lance.write_dataset(rows(*range(10)), uri, max_rows_per_file=4, enable_stable_row_ids=stable)
    for (writer, what), number in steps:
        step(uri, writer, what, number)
    newest = lance_spark.open(uri)
    for end in {1 + newest.version // 2, newest.version}:
        expected = content(lance.dataset(uri, version=end).to_table())
        plan = newest.plan_changes(1, end)
        assert applied(Counter(), pa.Table.from_batches(plan.batches(), schema=plan.schema)) == expected
        for start in range(2, end + 1):
            if lance.dataset(uri, version=start - 1).schema == lance.dataset(uri, version=end).schema:
                before = content(lance.dataset(uri, version=start - 1).to_table())
                part = newest.plan_changes(start, end)
                if all(lance.dataset(uri, version=n).schema == plan.schema for n in range(start, end)):
                    assert applied(before, pa.Table.from_batches(part.batches(), schema=part.schema)) == expected
