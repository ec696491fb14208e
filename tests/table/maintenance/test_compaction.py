"""Compaction keeps rows, order, ids and indices; the reference library reads the result and goes on from it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_spark
from lance_spark._proto import transaction_pb2
from lance_spark.errors import (
    CommitStateUnknownError,
    IncompatibleConflictError,
    InvalidInputError,
    RetryableConflictError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_spark.storage import open_store
from lance_spark.storage.faults import Fault, Harm
from lance_spark.table.commits.commit import RetryPolicy
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.compaction import RewriteResult, commit_compaction, compact
from lance_spark.table.maintenance.compaction_options import CompactionOptions
from lance_spark.table.maintenance.compaction_plan import CompactionTask
from lance_spark.table.manifests.history import History
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.operations.base import Settings
from lance_spark.table.operations.rewrite import Rewrite
from lance_spark.table.writing.save import CommitOptions
from tests.support.harmed_tables import with_faults

NO_WAIT = CommitOptions(policy=RetryPolicy(max_attempts=4, sleep=lambda seconds: None))
TEN = CompactionOptions(target_rows_per_fragment=10)


def rows(start: int, stop: int) -> pa.Table:
    """Numbers, texts with nulls, lists with empty ones, floats with NaN, structs."""
    numbers = range(start, stop)
    return pa.table(
        {
            "a": pa.array(numbers, pa.int64()),
            "s": [None if n % 5 == 0 else f"x{n % 7}" for n in numbers],
            "l": pa.array([None if n % 4 == 0 else [n] * (n % 3) for n in numbers], pa.list_(pa.int32())),
            "f": pa.array([float("nan") if n % 6 == 0 else n / 3 for n in numbers], pa.float32()),
            "t": [None if n % 9 == 0 else {"x": n, "y": str(n)} for n in numbers],
        }
    )


def written(uri: str, num_rows: int = 40, per_file: int = 4, stable: bool = False, version: str = "2.2") -> None:
    lance.write_dataset(
        rows(0, num_rows), uri, max_rows_per_file=per_file, enable_stable_row_ids=stable, data_storage_version=version
    )


def physical(uri: str) -> list[int]:
    return [message.physical_rows for message in lance_spark.open(uri).fragments.messages]


def data_files(uri: str) -> set[str]:
    return {path.name for path in (Path(uri) / "data").iterdir()}


def used_files(uri: str) -> set[str]:
    dataset = lance_spark.open(uri)
    return {
        file.path
        for entry in dataset.versions()
        for fragment in lance_spark.open(uri, version=entry.version).fragments
        for file in fragment.files
    }


def same(left: pa.Table, right: pa.Table) -> bool:
    """Equal, NaN to itself too."""
    return bool(left.schema.equals(right.schema)) and left.to_pandas().equals(right.to_pandas())


LINEAGE = ["a", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_the_rows_stay(tmp_path: Path, stable: bool, version: str) -> None:
    uri = str(tmp_path / "t")
    written(uri, stable=stable, version=version)
    lance.dataset(uri).delete("a in (1, 2, 17, 36, 37, 38, 39)")
    lance.dataset(uri).update({"s": "'new'"}, where="a = 20")
    before = lance.dataset(uri).to_table()
    lineage = lance_spark.open(uri).to_table(LINEAGE) if stable else None
    compacted = lance_spark.open(uri).compact(target_rows_per_fragment=10, commit_message="why")
    assert compacted.version == 4
    assert same(lance.dataset(uri).to_table(), before)
    lance.dataset(uri).validate()
    if lineage is not None:
        assert lance.dataset(uri).to_table(LINEAGE) == lineage == compacted.to_table(LINEAGE)
    assert physical(uri) == [10, 10, 13]
    assert lance.dataset(uri).take([0, 20, 32]).num_rows == 3
    assert lance.dataset(uri).read_transaction(4).transaction_properties == {"__lance_commit_message": "why"}
    assert not any(message.HasField("deletion_file") for message in compacted.fragments.messages)
    assert lance_spark.open(uri).compact(target_rows_per_fragment=10).version == 4


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_pylance_compacts_to_the_same(tmp_path: Path, stable: bool) -> None:
    own, committed = str(tmp_path / "ours"), str(tmp_path / "theirs")
    for uri in (own, committed):
        written(uri, num_rows=60, per_file=7, stable=stable)
        lance.dataset(uri).delete("a % 5 = 1 and a < 30")
    lance_spark.open(own).compact(target_rows_per_fragment=14)
    lance.dataset(committed).optimize.compact_files(target_rows_per_fragment=14)
    assert physical(own) == physical(committed)
    columns = LINEAGE if stable else ["a"]
    assert lance_spark.open(own).to_table(columns) == lance_spark.open(committed).to_table(columns)
    assert lance.dataset(committed).to_table(columns) == lance_spark.open(committed).to_table(columns)


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_pylance_goes_on(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path / "t")
    written(uri, stable=stable)
    lance_spark.open(uri).compact(target_rows_per_fragment=15)
    lance.write_dataset(rows(40, 50), uri, mode="append")
    lance.dataset(uri).delete("a = 3")
    lance.dataset(uri).update({"s": "'u'"}, where="a = 30")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=100)
    dataset = lance.dataset(uri)
    dataset.validate()
    assert sorted(dataset.to_table()["a"].to_pylist()) == [number for number in range(50) if number != 3]
    assert dataset.to_table(filter="s = 'u'")["a"].to_pylist() == [30]
    assert lance_spark.open(uri).to_table(["a"]) == dataset.to_table(["a"])
    if stable:
        assert len(set(dataset.to_table([], with_row_id=True)["_rowid"].to_pylist())) == 49


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP"])
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_indices_stay_right(tmp_path: Path, stable: bool, kind: str) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 25), uri, enable_stable_row_ids=stable)
    lance.write_dataset(rows(25, 40), uri, mode="append", max_rows_per_file=5)
    lance.dataset(uri).create_scalar_index("a", kind)
    lance.dataset(uri).delete("a = 26")
    lance_spark.open(uri).compact(target_rows_per_fragment=20)
    (index,) = parse_indices(lance_spark.open(uri).manifest.index_section)
    live = [fragment.id for fragment in lance_spark.open(uri).fragments]
    assert [number for number in index.fragment_ids() if number in live] == live
    for again in (False, True):
        if again:
            lance.dataset(uri).optimize.optimize_indices()
        dataset = lance.dataset(uri)
        for number in range(40):
            expected = 0 if number == 26 else 1
            assert dataset.count_rows(f"a = {number}") == expected
            assert dataset.to_table(filter=f"a = {number}").num_rows == expected
        assert dataset.to_table(filter="a > 20 and a < 30").num_rows == 8


def test_lineage_that_lies_in_data_files(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 300), uri, enable_stable_row_ids=True)
    lance.dataset(uri).update_config({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "16"})
    for number in range(3):
        lance.dataset(uri).update({"s": f"'turn {number}'"}, where=f"a % {number + 3} = 1")
    lance.dataset(uri).optimize.compact_files(materialize_deletions_threshold=0.0)
    assert lance_spark.open(uri).fragments.messages[0].HasField("column_row_ids")
    lance_spark.write(rows(300, 310), uri, mode="append")
    lance.dataset(uri).delete("a % 5 = 2")
    before = lance_spark.open(uri).to_table([*LINEAGE, "s"])
    compacted = lance_spark.open(uri).compact()
    assert len(compacted.fragments) == 1
    assert compacted.fragments[0].row_ids is not None
    assert compacted.to_table([*LINEAGE, "s"]) == before == lance.dataset(uri).to_table([*LINEAGE, "s"])
    lance.dataset(uri).validate()


def test_files_of_limited_size(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = pa.table({"a": np.random.default_rng(1).integers(0, 1 << 62, 3_000_000)})
    lance.write_dataset(table, uri, max_rows_per_file=300_000)
    options = {"target_rows_per_fragment": 4_000_000, "max_bytes_per_file": 9_000_000}
    compacted = lance_spark.open(uri).compact(**options)
    sizes = [file.size_bytes or 0 for fragment in compacted.fragments for file in fragment.files]
    assert 2 <= len(sizes) <= 3
    assert max(sizes) < 18_000_000
    # Full files are not rewritten again; the last one has nobody to be joined with.
    assert compacted.compact(**options).version == compacted.version
    assert lance.dataset(uri).to_table() == table


def test_mixed_versions_and_missing_columns(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    written(uri, num_rows=8, version="2.1")
    lance.write_dataset(rows(8, 16), uri, mode="append", max_rows_per_file=4, data_storage_version="2.2")
    lance.dataset(uri).add_columns(pa.field("n", pa.int32()))
    lance.dataset(uri).add_columns({"m": "a + 1"})
    lance.dataset(uri).drop_columns(["f"])
    before = lance.dataset(uri).to_table()
    compacted = lance_spark.open(uri).compact(target_rows_per_fragment=100)
    assert [file.version.value for fragment in compacted.fragments for file in fragment.files] == ["2.1"]
    assert same(lance.dataset(uri).to_table(), before)
    assert same(compacted.to_table(), before)


def test_requested_file_version(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 8).select(["a", "s"]), uri, max_rows_per_file=4, data_storage_version="2.0")
    location = TableLocation(uri)
    compact(location, CompactionOptions(file_format_version="2.2"))
    assert same(lance.dataset(uri).to_table(), rows(0, 8).select(["a", "s"]))


def test_blobs_of_older_files_keep_the_version_of_their_table(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table([pa.array([b"x", b"y"], pa.large_binary())], schema=pa.schema([field]))
    lance.write_dataset(table, uri, max_rows_per_file=1, data_storage_version="2.1")
    with pytest.raises(UnsupportedFeatureError, match="upgrade_files"):
        compact(TableLocation(uri), CompactionOptions(file_format_version="2.2"))
    (fragment,) = lance_spark.open(uri).compact().fragments
    assert [file.version.value for file in fragment.files] == ["2.1"]
    assert [blob.readall() for blob in lance.dataset(uri).take_blobs("b", indices=[0, 1])] == [b"x", b"y"]


def test_fragments_without_a_row_go(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    written(uri, num_rows=12)
    dataset = lance_spark.open(uri)
    plan = dataset.plan_compaction(TEN)
    assert [task.fragment_ids for task in plan.tasks] == [(0, 1, 2)]
    nothing = RewriteResult(dataset.version, plan.tasks[0].fragment_ids, ())
    emptied = dataset.commit_compaction([nothing])
    assert (emptied.count_rows(), len(emptied.fragments)) == (0, 0)
    assert lance.dataset(uri).count_rows() == 0
    lance.write_dataset(rows(0, 3), uri, mode="append")
    assert [fragment.id for fragment in lance_spark.open(uri).fragments] == [3]


def test_tasks_travel_as_text(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    written(uri, stable=True)
    before = lance.dataset(uri).to_table(with_row_id=True)
    dataset = lance_spark.open(uri)
    plan = dataset.plan_compaction(TEN)
    assert pickle.loads(pickle.dumps(plan)) == plan
    results = []
    for task in plan.tasks:
        sent = CompactionTask.from_json(task.to_json())
        assert sent == task
        results.append(lance_spark.open(uri, version=sent.read_version).run_compaction_task(sent).to_json())
    made = dataset.commit_compaction([RewriteResult.from_json(text) for text in results])
    assert made.version == 2
    assert same(lance.dataset(uri).to_table(with_row_id=True), before)
    for text in ("", "{}", "[]", '{"read_version": 1, "fragment_ids": ["x"], "options": {}}'):
        with pytest.raises(InvalidInputError):
            CompactionTask.from_json(text)
        with pytest.raises(InvalidInputError):
            RewriteResult.from_json(text)
    with pytest.raises(InvalidInputError, match="version"):
        made.run_compaction_task(plan.tasks[0])
    with pytest.raises(InvalidInputError, match="version"):
        made.commit_compaction([RewriteResult.from_json(results[0])])
    with pytest.raises(InvalidInputError, match="two results"):
        dataset.commit_compaction([RewriteResult.from_json(results[0])] * 2)


def test_a_branch(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    written(uri)
    lance.dataset(uri).create_branch("b", 1)
    lance_spark.write(rows(40, 48), uri, mode="append", branch="b")
    made = lance_spark.open(uri, branch="b").compact(target_rows_per_fragment=100)
    assert [file.base_id for fragment in made.fragments for file in fragment.files] == [None]
    assert same(lance.dataset(uri).checkout_version(("b", made.version)).to_table(), rows(0, 48))
    assert lance_spark.open(uri).version == 1


def test_nothing_to_do_makes_no_version(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    written(uri, per_file=40)
    assert lance_spark.open(uri).compact().version == 1
    assert lance_spark.open(uri).commit_compaction([]).version == 1


# Other writers.


def between(uri: str, act: Callable[[lance.LanceDataset], object]) -> tuple[Dataset, set[str]]:
    """What is committed if another writer acts after the tasks have run; and the data files that no version has."""
    dataset = lance_spark.open(uri)
    results = [dataset.run_compaction_task(task) for task in dataset.plan_compaction(TEN).tasks]
    act(lance.dataset(uri))
    try:
        made = dataset.commit_compaction(results)
    finally:
        orphans = data_files(uri) - used_files(uri)
    return made, orphans


@pytest.mark.parametrize(
    "act",
    [
        lambda dataset: lance.write_dataset(rows(40, 44), dataset.uri, mode="append"),
        lambda dataset: dataset.update_config({"k": "v"}),
        lambda dataset: dataset.create_scalar_index("a", "BTREE"),
        lambda dataset: dataset.add_columns(pa.field("n", pa.int32())),
        lambda dataset: dataset.alter_columns({"path": "s", "name": "renamed"}),
    ],
    ids=["append", "config", "index", "null column", "rename"],
)
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_what_does_not_hinder(tmp_path: Path, act: Callable[[lance.LanceDataset], object], stable: bool) -> None:
    uri = str(tmp_path / "t")
    written(uri, stable=stable)
    expected = str(tmp_path / "expected")
    written(expected, stable=stable)
    act(lance.dataset(expected))
    made, orphans = between(uri, act)
    assert (made.version, orphans) == (3, set())
    dataset = lance.dataset(uri)
    dataset.validate()
    assert same(dataset.to_table().sort_by("a"), lance.dataset(expected).to_table().sort_by("a"))
    assert dataset.count_rows("a = 33") == 1


@pytest.mark.parametrize(
    "act",
    [
        lambda dataset: dataset.delete("a = 1"),
        lambda dataset: dataset.update({"s": "'u'"}, where="a = 1"),
        lambda dataset: dataset.delete("a < 5"),
    ],
    ids=["delete", "update", "whole fragment"],
)
def test_a_changed_fragment_is_left_out(tmp_path: Path, act: Callable[[lance.LanceDataset], object]) -> None:
    uri = str(tmp_path / "t")
    expected = str(tmp_path / "expected")
    for table in (uri, expected):
        written(table)
    act(lance.dataset(expected))
    made, orphans = between(uri, act)
    assert (made.version, orphans) == (3, set())
    assert sorted(made.to_table()["a"].to_pylist()) == sorted(lance.dataset(expected).to_table()["a"].to_pylist())
    lance.dataset(uri).validate()
    assert made.fragments[len(made.fragments) - 1].files != lance_spark.open(expected).fragments[0].files
    # The next one takes what was left out.
    assert len(made.compact(target_rows_per_fragment=10).fragments) < len(made.fragments)


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda dataset: dataset.delete("a % 4 = 0"), RetryableConflictError),
        (lambda dataset: dataset.optimize.compact_files(target_rows_per_fragment=8), RetryableConflictError),
        (lambda dataset: dataset.add_columns({"c": "a"}), RetryableConflictError),
        (lambda dataset: dataset.drop_columns(["s"]), RetryableConflictError),
        (lambda dataset: dataset.alter_columns({"path": "a", "data_type": pa.int32()}), RetryableConflictError),
        (lambda dataset: lance.write_dataset(rows(0, 3), dataset.uri, mode="overwrite"), IncompatibleConflictError),
        (lambda dataset: dataset.restore(), IncompatibleConflictError),
    ],
    ids=["delete everywhere", "compaction", "column", "drop", "cast", "overwrite", "restore"],
)
def test_what_hinders(tmp_path: Path, act: Callable[[lance.LanceDataset], object], error: type[Exception]) -> None:
    uri = str(tmp_path / "t")
    written(uri)
    dataset = lance_spark.open(uri)
    results = [dataset.run_compaction_task(task) for task in dataset.plan_compaction(TEN).tasks]
    act(lance.dataset(uri))
    after = lance.dataset(uri).to_table()
    with pytest.raises(error):
        commit_compaction(dataset.location, dataset.manifest, results, NO_WAIT)
    assert data_files(uri) == used_files(uri)
    assert same(lance.dataset(uri).to_table(), after)
    assert lance.dataset(uri).version <= 3


def test_the_whole_call_starts_over(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    written(uri, num_rows=8)

    def meanwhile() -> None:
        lance.dataset(uri).delete("a % 4 = 0")

    location = with_faults(uri, Fault("put", Harm.NONE, path_part="_transactions", run=meanwhile))
    manifest = compact(location, TEN, NO_WAIT)
    assert (manifest.version, [message.physical_rows for message in manifest.fragments.messages]) == (3, [6])
    assert lance.dataset(uri).to_table()["a"].to_pylist() == [1, 2, 3, 5, 6, 7]
    assert data_files(uri) == used_files(uri)


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("what", ["delete", "update", "append", "index", "compact", "add column", "merge"])
def test_pylance_follows_from_an_older_version(tmp_path: Path, what: str, stable: bool) -> None:
    uri = str(tmp_path / "t")
    written(uri, stable=stable)
    stale = lance.dataset(uri)
    lance_spark.open(uri).compact(target_rows_per_fragment=10)
    acts: dict[str, Callable[[], object]] = {
        "delete": lambda: stale.delete("a = 3"),
        "update": lambda: stale.update({"s": "'u'"}, where="a = 3"),
        "append": lambda: lance.write_dataset(rows(41, 42), stale, mode="append"),
        "index": lambda: stale.create_scalar_index("a", "BTREE"),
        "compact": lambda: stale.optimize.compact_files(),
        "add column": lambda: stale.add_columns({"c": "a + 1"}),
        "merge": lambda: stale.merge_insert("a").when_matched_update_all().execute(rows(3, 4)),
    }
    # Some are refused, for the caller to run again; none may harm a row.
    with suppress(OSError):
        acts[what]()
    dataset = lance.dataset(uri)
    dataset.validate()
    expected = set(range(40)) ^ {"append": {41}, "delete": {3}}.get(what, set())
    values = dataset.to_table()["a"].to_pylist()
    assert sorted(values) == sorted(expected)
    for number in (2, 3, 39):
        assert dataset.count_rows(f"a = {number}") == (number in expected)


@pytest.mark.parametrize("harm", [Harm.ANSWER_LOST, Harm.NOT_SENT, Harm.SENT_TWICE])
def test_a_lost_reply_makes_one_version(tmp_path: Path, harm: Harm) -> None:
    uri = str(tmp_path / "t")
    written(uri)
    assert compact(with_faults(uri, Fault("put_if_absent", harm)), TEN, NO_WAIT).version == 2
    assert same(lance.dataset(uri).to_table(), rows(0, 40))
    assert data_files(uri) == used_files(uri)


@pytest.mark.parametrize("landed", [False, True])
def test_results_can_be_committed_again_after_a_silence(tmp_path: Path, landed: bool) -> None:
    uri = str(tmp_path / "t")
    written(uri)
    dataset = lance_spark.open(uri)
    results = [dataset.run_compaction_task(task) for task in dataset.plan_compaction(TEN).tasks]
    harm = Harm.ANSWER_LOST if landed else Harm.NOT_SENT
    silent = with_faults(
        uri,
        Fault("put_if_absent", harm, times=99),
        *([Fault("read", Harm.FAILS, nth=1, times=99, path_part=f"{2**64 - 1 - 2}")] if landed else []),
    )
    with pytest.raises(CommitStateUnknownError):
        commit_compaction(silent, dataset.manifest, results, NO_WAIT)
    made = dataset.commit_compaction(results)
    assert made.version == 2
    assert same(lance.dataset(uri).to_table(), rows(0, 40))
    assert data_files(uri) == used_files(uri)


@pytest.mark.parametrize("operation", ["open_output", "write", "close", "read_range", "put"])
def test_a_failing_store_leaves_nothing_behind(tmp_path: Path, operation: str) -> None:
    uri = str(tmp_path / "t")
    written(uri)
    lance.dataset(uri).delete("a = 21")
    before = data_files(uri)
    with pytest.raises(StorageError):
        compact(with_faults(uri, Fault(operation, nth=2 if operation != "put" else 1)), TEN, NO_WAIT)
    assert (data_files(uri), lance.dataset(uri).version) == (before, 2)


def test_an_operation_of_pylance_is_read(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    written(uri)
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=20)
    file = History(open_store(uri)).load_latest()
    assert file.transaction is not None
    message = transaction_pb2.Transaction.FromString(file.transaction)
    operation = Rewrite.from_proto(message.rewrite)
    assert [sorted(group.old_ids) for group in operation.groups] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert operation.to_proto() == message.rewrite
    # Applied here it gives the version that the reference has made of it.
    history = History(open_store(uri))
    previous = history.load(file.manifest.version - 1).manifest
    settings_of = Settings(file.manifest.version, file.manifest.timestamp_nanos, previous.file_version, False)  # type: ignore[arg-type]
    own = operation.next_manifest(previous, settings_of)
    assert own.fragments == file.manifest.fragments
    assert [(i.uuid, i.fragment_ids()) for i in parse_indices(own.index_section)] == [
        (i.uuid, i.fragment_ids()) for i in parse_indices(file.manifest.index_section)
    ]


@pytest.mark.slow
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(1, 12)),
            st.tuples(st.just("delete"), st.integers(2, 7)),
            st.tuples(st.just("update"), st.integers(2, 7)),
            st.tuples(st.just("compact"), st.integers(1, 25)),
        ),
        min_size=2,
        max_size=6,
    ),
    st.booleans(),
)
@settings(max_examples=12, deadline=None)
def test_random_histories(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], stable: bool) -> None:
    uri = str(tmp_path_factory.mktemp("t") / "t")
    written(uri, num_rows=10, per_file=3, stable=stable)
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    top = 10
    for what, number in steps:
        if what == "append":
            lance_spark.write(rows(top, top + number), uri, mode="append")
            top += number
        elif what == "delete":
            lance.dataset(uri).delete(f"a % {number} = 1")
        elif what == "update":
            lance.dataset(uri).update({"s": "'u'"}, where=f"a % {number} = 0")
        else:
            columns = LINEAGE if stable else ["a", "s"]
            before = lance_spark.open(uri).to_table(columns)
            compacted = lance_spark.open(uri).compact(target_rows_per_fragment=number)
            assert compacted.to_table(columns) == lance.dataset(uri).to_table(columns)
            assert compacted.to_table(columns).sort_by("a") == before.sort_by("a")
            lance.dataset(uri).validate()
            assert compacted.compact(target_rows_per_fragment=10_000).count_rows() == before.num_rows
        found = lance.dataset(uri).to_table(["a"])["a"].to_pylist()
        for value in (0, 1, 5, top - 1):
            assert lance.dataset(uri).count_rows(f"a = {value}") == found.count(value)
