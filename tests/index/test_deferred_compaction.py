"""Compactions that this library defers the remapping of indexes for, and what brings the indexes up to date."""

from __future__ import annotations

import random
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.table.indexes import deferred_remap
from lance_spark.table.maintenance.compaction_options import CompactionOptions
from lance_spark.table.manifests.index_metadata import IndexMetadata
from tests.index.builds import both
from tests.index.comparisons import append, check_all, repeated, write
from tests.support.history_seeds import seeds
from tests.support.index.fragment_reuse import ANSWERED_BY, check_answered
from tests.support.index.fragment_reuse import compact as reference_compact
from tests.support.index.lifecycle import CONDITIONS, History, indexed, rows


def record(uri: str) -> IndexMetadata | None:
    """The fragment reuse index."""
    return next((index for index in lance_spark.open(uri).indices() if index.is_fragment_reuse), None)


def compact(uri: str, target_rows: int, *, deferred: bool | None = None) -> lance_spark.Dataset:
    return lance_spark.open(uri).compact(target_rows_per_fragment=target_rows, defer_index_remap=deferred)


def check_in_both(uri: str) -> None:
    """Each index answers for all fragments in both libraries, and right."""
    check_answered(uri)
    for condition, index in ANSWERED_BY.items():
        both(uri, condition, reference=condition.replace("array_contains", "array_has"), index=index)


def test_deferred_compaction_is_read_by_both_libraries(tmp_path: Path, warnings: list[str]) -> None:
    uri = str(tmp_path)
    indexed(uri)
    before = {index.uuid for index in lance_spark.open(uri).indices()}
    lance_spark.open(uri).delete("id % 7 = 3")
    made = compact(uri, 200, deferred=True)
    assert len(made.fragments) < 3
    assert {index.uuid for index in made.indices()} > before, "an index file was written"
    check_in_both(uri)
    assert warnings == []


@pytest.mark.parametrize("first", ["own", "reference"])
def test_later_compaction_extends_the_record(tmp_path: Path, first: str, warnings: list[str]) -> None:
    """It need not ask for a deferred remap: index files have addresses from before."""
    uri = str(tmp_path)
    indexed(uri)
    lance.dataset(uri).delete("id % 7 = 3")
    if first == "own":
        compact(uri, 100, deferred=True)
    else:
        reference_compact(uri, 100)
    lance.dataset(uri).delete("id % 5 = 1")
    assert len(compact(uri, 1000).fragments) == 1
    check_in_both(uri)
    assert warnings == []


@pytest.mark.slow
def test_reference_extends_our_record(tmp_path: Path, warnings: list[str]) -> None:
    uri = str(tmp_path)
    indexed(uri)
    compact(uri, 100, deferred=True)
    lance_spark.open(uri).delete("id % 5 = 1")
    reference_compact(uri, 1000)
    check_in_both(uri)
    append(uri, rows(40, 5), first_id=10_000)
    lance.dataset(uri).optimize.optimize_indices()
    check_in_both(uri)
    assert warnings == []


@pytest.mark.parametrize("library", ["own", "reference"])
def test_optimize_brings_indexes_up_to_date_and_drops_the_record(
    tmp_path: Path, library: str, warnings: list[str]
) -> None:
    uri = str(tmp_path)
    indexed(uri)
    lance.dataset(uri).delete("id % 7 = 3")
    if library == "own":
        compact(uri, 100, deferred=True)
    reference_compact(uri, 1000)
    append(uri, rows(40, 5), first_id=10_000)
    lance_spark.open(uri).optimize_indices()
    assert record(uri) is None
    check_in_both(uri)
    compact(uri, 1000)
    assert record(uri) is None
    both(uri, "x = 17", index="tree")
    both(uri, "contains(s, 'alpha')", index="grams")
    check_all(uri, CONDITIONS)
    assert warnings == []


def test_record_stays_while_one_index_needs_it(tmp_path: Path) -> None:
    uri = str(tmp_path)
    indexed(uri)
    compact(uri, 1000, deferred=True)
    lance_spark.open(uri).optimize_indices("tree")
    assert record(uri) is not None
    check_in_both(uri)
    lance_spark.open(uri).optimize_indices()
    assert record(uri) is None
    check_in_both(uri)


def test_segment_that_pylance_broke_is_built_again(tmp_path: Path) -> None:
    """It loses rows of BTREE by an immediate compaction after a deferred one."""
    uri = str(tmp_path)
    write(uri, {"v": repeated([0, 1, 2, 3], 60, pa.int64())}, rows_per_file=20).create_scalar_index("v", "BTREE")
    reference_compact(uri, 30)
    reference_compact(uri, 1000, deferred=False)
    assert lance.dataset(uri).to_table(filter="v = 1").num_rows == 0, "the reference library is repaired"
    lance_spark.open(uri).optimize_indices()
    assert len(both(uri, "v = 1", index="v_idx")) == 15


def test_cleanup_trims_what_no_index_needs(tmp_path: Path) -> None:
    uri = str(tmp_path)
    write(uri, {"v": repeated([0, 1, 2, 3], 60, pa.int64())}, rows_per_file=20).create_scalar_index("v", "BTREE")
    compact(uri, 1000, deferred=True)
    lance_spark.open(uri).cleanup()
    assert record(uri) is not None
    lance.dataset(uri).drop_index("v_idx")
    lance_spark.open(uri).cleanup(dry_run=True)
    assert record(uri) is not None
    lance_spark.open(uri).cleanup()
    assert record(uri) is None


def test_statistics_and_list_know_moved_fragments(tmp_path: Path) -> None:
    uri = str(tmp_path)
    indexed(uri)
    lance_spark.open(uri).delete("id % 7 = 3")
    compact(uri, 1000, deferred=True)
    append(uri, rows(40, 5), first_id=10_000)
    for name in ANSWERED_BY.values():
        found = lance_spark.open(uri).index_statistics(name)
        expected = lance.dataset(uri).stats.index_stats(name)
        for key in ("num_indexed_fragments", "num_indexed_rows", "num_unindexed_fragments", "num_unindexed_rows"):
            assert found[key] == expected[key], (name, key)
    expected = {item["name"]: set(item["fragment_ids"]) for item in lance.dataset(uri).list_indices()}
    assert {item["name"]: item["fragment_ids"] for item in lance_spark.open(uri).list_indices()} == expected


@pytest.mark.slow
def test_long_record_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warnings: list[str]) -> None:
    monkeypatch.setattr(deferred_remap, "_MAX_INLINE_BYTES", 10)
    uri = str(tmp_path)
    indexed(uri)
    lance_spark.open(uri).delete("id % 7 = 3")
    compact(uri, 100, deferred=True)
    check_in_both(uri)
    compact(uri, 1000)
    found = record(uri)
    assert found is not None
    assert [path.name for path in (tmp_path / "_indices" / found.uuid).iterdir()] == ["details.binpb"]
    check_in_both(uri)
    append(uri, rows(40, 5), first_id=10_000)
    lance_spark.open(uri).optimize_indices()
    check_in_both(uri)
    assert warnings == []


def test_index_that_was_built_meanwhile_is_remapped_later(tmp_path: Path, warnings: list[str]) -> None:
    """The compaction has read the table before the index was there."""
    uri = str(tmp_path)
    write(uri, rows(240, 1), rows_per_file=80).create_scalar_index("k", "BITMAP", name="map")
    base = lance_spark.open(uri)
    plan = base.plan_compaction(CompactionOptions(1000, defer_index_remap=True))
    results = [base.run_compaction_task(task) for task in plan.tasks]
    lance_spark.open(uri).create_scalar_index("x", "BTREE", "tree")
    made = base.commit_compaction(results)
    assert len(made.fragments) == 1
    assert record(uri) is not None
    both(uri, "x = 17", index="tree")
    both(uri, "k = 'beta'", index="map")
    assert warnings == []


def test_two_deferred_compactions_at_once_are_both_recorded(tmp_path: Path, warnings: list[str]) -> None:
    uri = str(tmp_path)
    write(uri, rows(240, 1), rows_per_file=40).create_scalar_index("x", "BTREE", name="tree")
    base = lance_spark.open(uri)
    plan = base.plan_compaction(CompactionOptions(120, defer_index_remap=True))
    first, second = [base.run_compaction_task(task) for task in plan.tasks]
    base.commit_compaction([first])
    made = base.commit_compaction([second])
    assert len(made.fragments) == 2
    both(uri, "x = 17", index="tree")
    assert "scanned without index: none" in made.explain("x = 17")
    assert warnings == []


def test_stale_record_is_not_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer replaces the record between its reading and the commit, once."""
    uri = str(tmp_path)
    write(uri, rows(240, 1), rows_per_file=40).create_scalar_index("x", "BTREE", name="tree")
    base = lance_spark.open(uri)
    plan = base.plan_compaction(CompactionOptions(120, defer_index_remap=True))
    first, second = [base.run_compaction_task(task) for task in plan.tasks]
    extended = deferred_remap.extended_reuse
    calls = []

    def slow(*args: object) -> IndexMetadata:
        made = extended(*args)  # type: ignore[arg-type]
        calls.append(args)
        if len(calls) == 1:
            base.commit_compaction([first])
        return made

    monkeypatch.setattr("lance_spark.table.indexes.remap.extended_reuse", slow)
    base.commit_compaction([second])
    assert len(calls) == 3
    both(uri, "x = 17", index="tree")


def test_stable_row_ids_refuse_a_deferred_remap(tmp_path: Path) -> None:
    uri = str(tmp_path)
    indexed(uri, stable_row_ids=True)
    with pytest.raises(UnsupportedFeatureError, match="leave defer_index_remap out"):
        compact(uri, 1000, deferred=True)


def test_table_without_an_index_gets_no_record(tmp_path: Path) -> None:
    uri = str(tmp_path)
    write(uri, rows(240, 1), rows_per_file=80)
    compact(uri, 1000, deferred=True)
    assert record(uri) is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(3))
def test_random_histories_with_deferred_compactions_of_both(tmp_path: Path, seed: int, warnings: list[str]) -> None:
    uri = str(tmp_path)
    indexed(uri)
    history = History(uri, seed + 200)
    draw = random.Random(seed)
    for _ in range(6):
        choice = draw.random()
        if choice < 0.3:
            compact(uri, draw.choice([100, 150, 1000]), deferred=draw.random() < 0.7)
            history.steps.append("own compaction")
        elif choice < 0.5:
            reference_compact(uri, draw.choice([100, 150, 1000]), deferred=draw.random() < 0.7)
            history.steps.append("compaction of the reference")
        elif choice < 0.6:
            lance_spark.open(uri).cleanup()
            history.steps.append("cleanup")
        else:
            history.step()
        try:
            check_all(uri, CONDITIONS)
        except AssertionError as error:
            raise AssertionError(f"after {history.steps}") from error
    assert warnings == []
