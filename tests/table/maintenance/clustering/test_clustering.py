"""Clustering changes no rows: indexes, ids, other writers, the reference library, and what a second run does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import RetryableConflictError, StorageError, UnsupportedFeatureError
from lance_spark.expr.nodes import Expr
from lance_spark.storage.faults import Fault, Harm
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.clustering.cluster import planner
from lance_spark.table.maintenance.clustering.layout import Layout
from lance_spark.table.maintenance.compaction import RewriteResult, commit_compaction, compact, run_task
from lance_spark.table.maintenance.compaction_options import CompactionOptions
from lance_spark.table.maintenance.compaction_plan import CompactionPlan, CompactionTask
from lance_spark.table.manifests.manifest import Manifest
from tests.support.harmed_tables import with_faults

SYSTEM = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
ALL = ["id", "a", "b", "s", "v"]


def rows(start: int, stop: int) -> pa.Table:
    rng = np.random.default_rng(start)
    count = stop - start
    vectors = pa.FixedSizeListArray.from_arrays(rng.normal(size=count * 8).astype(np.float32), 8)
    return pa.table(
        {
            "id": range(start, stop),
            "a": pa.array(rng.integers(0, 1000, count), mask=rng.random(count) < 0.05),
            "b": rng.normal(size=count),
            "s": [f"word{number % 13} text{number % 7}" for number in range(start, stop)],
            "v": vectors,
        }
    )


@pytest.fixture(params=[False, True], ids=["addresses", "stable"])
def uri(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """3,000 rows in six fragments that the reference library has written, some of them deleted and updated."""
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 3000), uri, max_rows_per_file=500, enable_stable_row_ids=request.param)
    lance.dataset(uri).delete("id % 11 = 4")
    lance.dataset(uri).update({"b": "b + 1"}, where="id % 17 = 3")
    return uri


def content(uri: str, columns: list[str] | None = None) -> list[dict[str, Any]]:
    """The rows by id, as both libraries read them."""
    mine = lance_spark.open(uri).to_table(columns=columns).sort_by("id")
    reference = lance.dataset(uri)
    reference.validate()
    assert reference.to_table(columns=columns).sort_by("id").to_pylist() == mine.to_pylist()
    result: list[dict[str, Any]] = mine.to_pylist()
    return result


@pytest.mark.parametrize("curve", ["hilbert", "zorder", "sort"])
def test_rows_ids_and_versions_stay(uri: str, curve: str) -> None:
    is_stable = lance_spark.open(uri).manifest.has_stable_row_ids
    columns = ALL + (SYSTEM if is_stable else [])
    before = content(uri, columns)
    made = lance_spark.open(uri).optimize.cluster(["a", "b"], curve)
    assert content(uri, columns) == before
    assert made.to_table(columns=["id"])["id"].to_pylist() != sorted(row["id"] for row in before)
    # The reference library goes on from it.
    lance.dataset(uri).delete("id < 100")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=5000)
    assert content(uri, columns) == [row for row in before if row["id"] >= 100]


@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_indexes_answer_as_before(uri: str, writer: str) -> None:
    kinds = [("id", "BTREE"), ("a", "BITMAP"), ("s", "INVERTED")]
    for column, kind in kinds:
        if writer == "ours":
            lance_spark.open(uri).create_index(column, kind)
        else:
            lance.dataset(uri).create_scalar_index(column, kind)
    lance.dataset(uri).create_index("v", "IVF_FLAT", num_partitions=2)

    def answers() -> list[Any]:
        table = lance.dataset(uri)
        query = rows(0, 1)["v"][0].as_py()
        near = {"column": "v", "q": query, "k": 5, "nprobes": 2}
        mine = lance_spark.open(uri)
        chosen = "id in (5, 77, 1002, 2999)", "a = 500", "a IS NULL", "a between 3 and 9"
        return [
            *(sorted(table.to_table(filter=text)["id"].to_pylist()) for text in chosen),
            *(sorted(mine.to_table(filter=text)["id"].to_pylist()) for text in chosen),
            sorted(table.to_table(columns=["id"], full_text_query="word3")["id"].to_pylist()),
            table.to_table(columns=["id"], nearest=near)["id"].to_pylist(),
        ]

    before = answers()
    assert len(before[0]) == 4
    assert len(before[-2]) > 100
    made = lance_spark.open(uri).optimize.cluster(["a", "b"])
    assert answers() == before
    ids = {message.id for message in made.fragments.messages}
    covered = {item["name"]: set(item["fragment_ids"]) for item in made.list_indices()}
    assert {name: numbers & ids for name, numbers in covered.items()} == dict.fromkeys(covered, ids)
    assert "ScalarIndexQuery" in lance.dataset(uri).scanner(filter="id = 5").explain_plan()


def ours(uri: str) -> list[tuple[str, Callable[[], object]]]:
    def opened() -> Dataset:
        return lance_spark.open(uri)

    return [
        ("append", lambda: opened().append(rows(5000, 5010))),
        ("delete", lambda: opened().delete("id < 300")),
        ("update", lambda: opened().update({"s": "'new'"}, "id < 300")),
        ("their append", lambda: lance.write_dataset(rows(5000, 5010), uri, mode="append")),
        ("their delete", lambda: lance.dataset(uri).delete("id < 300")),
        ("their update", lambda: lance.dataset(uri).update({"s": "'new'"}, where="id < 300")),
        ("their index", lambda: lance.dataset(uri).create_scalar_index("id", "BTREE")),
        ("their compaction", lambda: lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=700)),
        ("our index", lambda: opened().create_index("id", "BTREE")),
    ]


@pytest.mark.parametrize("number", range(9))
def test_nothing_that_others_commit_meanwhile_is_lost(uri: str, number: int) -> None:
    name, step = ours(uri)[number]
    table = lance_spark.open(uri)
    base, location = table.manifest, table.location
    layout = Layout.of(table.lance_schema, ["a", "b"])
    plan = planner(layout)(location, base, CompactionOptions())
    # Tasks and results travel as text.
    tasks = [CompactionTask.from_json(task.to_json()) for task in plan.tasks]
    results = [RewriteResult.from_json(run_task(location, base, task).to_json()) for task in tasks]
    step()
    expected = content(uri)
    try:
        commit_compaction(location, base, results)
        assert "append" in name or "index" in name
    except RetryableConflictError:
        assert "append" not in name
    assert content(uri) == expected
    assert lance.dataset(uri).to_table(filter="id in (700, 701)").num_rows == 2
    lance_spark.open(uri).optimize.cluster(["a", "b"])
    assert content(uri) == expected
    assert lance.dataset(uri).to_table(filter="id in (700, 701)").num_rows == 2


def test_a_second_run_takes_only_what_no_run_has_clustered(uri: str) -> None:
    first = lance_spark.open(uri).optimize.cluster(["a", "b"])
    ids = {message.id for message in first.fragments.messages}
    assert first.optimize.cluster(["a", "b"]).version == first.version
    appended = first.append(rows(4000, 4100))
    second = appended.optimize.cluster(["a", "b"])
    assert ids < {message.id for message in second.fragments.messages}
    assert second.count_rows() == appended.count_rows()
    other = second.optimize.cluster(["b", "a"])
    assert ids.isdisjoint(message.id for message in other.fragments.messages)
    # What others rewrite is not clustered any more, nor is what has new values in the columns.
    lance.dataset(uri).update({"a": "1"}, where="id = 50")
    assert other.newest().optimize.cluster(["b", "a"]).version > other.newest().version - 1
    whole = lance_spark.open(uri).overwrite(rows(0, 50))
    again = whole.optimize.cluster(["b", "a"])
    assert again.version > whole.version
    assert again.optimize.cluster(["b", "a"]).version == again.version


def test_many_small_runs_do_not_leave_many_small_fragments(tmp_path: Path) -> None:
    table = lance_spark.write(rows(0, 10), tmp_path / "t").optimize.cluster(["a"])
    for number in range(1, 21):
        table = table.append(rows(10 * number, 10 * number + 10)).optimize.cluster(["a"])
        assert len(table.fragments) <= 9
    assert sorted(table.to_table()["id"].to_pylist()) == list(range(210))


def test_a_condition_chooses_fragments(uri: str) -> None:
    before = lance_spark.open(uri)
    made = before.optimize.cluster(["a", "b"], where="id < 400")
    chosen = {part.fragment_id for part in before.get_fragments() if part.count_rows("id < 400")}
    ids = {message.id for message in before.fragments.messages}
    assert ids - {message.id for message in made.fragments.messages} == chosen
    assert 0 < len(chosen) < len(ids)
    assert content(uri) == before.to_table().sort_by("id").to_pylist()


def test_a_deferred_compaction_is_not_mixed_with_another_order(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 300), uri, max_rows_per_file=100)
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    table = lance_spark.open(uri)
    layout = Layout.of(table.lance_schema, ["a", "b"])
    results = [
        run_task(table.location, table.manifest, task)
        for task in planner(layout)(table.location, table.manifest, CompactionOptions()).tasks
    ]
    table.append(rows(300, 400)).append(rows(400, 500))
    appended = set(range(3, 5))
    plan = lance_spark.open(uri).plan_compaction(CompactionOptions(defer_index_remap=True))
    newest = lance_spark.open(uri)
    chosen = [task for task in plan.tasks if set(task.fragment_ids) <= appended]
    newest.commit_compaction([newest.run_compaction_task(task) for task in chosen])
    # Rows that the record says nothing of may move; its indexes say where to.
    with suppress(RetryableConflictError):
        commit_compaction(table.location, table.manifest, results)
    assert lance_spark.open(uri).to_table(filter="id in (5, 299, 350)").num_rows == 3
    assert lance.dataset(uri).to_table(filter="id in (5, 299, 350)").num_rows == 3
    with pytest.raises(UnsupportedFeatureError, match="optimize_indices"):
        lance_spark.open(uri).optimize.cluster(["a", "b"])
    lance_spark.open(uri).optimize_indices()
    lance_spark.open(uri).optimize.cluster(["a", "b"])
    assert lance.dataset(uri).to_table(filter="id in (5, 299, 350)").num_rows == 3
    assert len(content(uri)) == 500


def test_a_failed_run_leaves_nothing(uri: str) -> None:
    before = content(uri)
    version = lance_spark.open(uri).version
    table = lance_spark.open(uri)
    for name in ("put", "put_if_absent"):
        location = with_faults(uri, Fault(name, Harm.FAILS, nth=1))
        with pytest.raises((StorageError, RetryableConflictError)):
            cluster_at(location, table)
        assert content(uri) == before
    assert lance_spark.open(uri).version <= version + 1  # Ids of fragments may be reserved.
    files = {path.name for path in (Path(uri) / "data").iterdir()}
    used = {Path(file.path).name for message in lance_spark.open(uri).fragments.messages for file in message.files}
    assert used <= files


def cluster_at(location: TableLocation, table: Dataset) -> Manifest:
    layout = Layout.of(table.lance_schema, ["a", "b"])

    def plan(where: TableLocation, base: Manifest, options: CompactionOptions) -> CompactionPlan:
        condition: Expr | None = None
        return planner(layout, condition)(where, base, options)

    return compact(location, planner=plan)


def test_partitions_are_clustered_in_one_version(tmp_path: Path) -> None:
    whole = rows(0, 900).append_column("p", pa.array([number % 3 for number in range(900)]))
    table = lance_spark.write(whole, tmp_path / "t", partition_by=["p"], max_rows_per_file=100)
    made = table.optimize.cluster(["a", "b"], where="p < 2")
    assert made.version == table.version + 1
    assert made.to_table().sort_by("id").select(whole.column_names).to_pylist() == whole.to_pylist()
    names = {(item["partition"], item["name"]) for item in made.list_indices()}
    assert len(names) == 4
    again = made.optimize.cluster(["a", "b"])
    assert again.version == made.version + 1
    assert again.optimize.cluster(["a", "b"]).version == again.version
    # Each partition is a table that the reference library reads.
    for split in again.splits():
        reference = lance.dataset(split.table.uri, version=split.manifest.version)
        reference.validate()
        assert reference.to_table()["a"].null_count < 300 == reference.count_rows()
