"""Verbs on indexes have the same effect, whether the table has partitions or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import AlreadyExistsError, InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.index.planner import Plan
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.index_plan import index_plan
from lance_spark.table.reading.scan import Scan
from tests.table_verbs.kinds import ROWS, Kind, Partitioned, table_of


def num_rows(dataset: Any, name: str) -> tuple[int, int]:
    """(indexed rows, rows without index)."""
    found = dataset.index_statistics(name)
    return found["num_indexed_rows"], found["num_unindexed_rows"]


@pytest.mark.parametrize("index", ["BTREE", "ZONEMAP", "BITMAP"])
def test_created_index_covers_all_rows_in_one_version(kind: Kind, dataset: Any, index: str) -> None:
    made = dataset.create_scalar_index("id", index)
    assert made.version == dataset.version + 1
    assert {(entry["name"], *entry["fields"]) for entry in made.list_indices()} == {("id_idx", "id")}
    assert num_rows(made, "id_idx") == (5, 0)
    assert made.index_statistics("id_idx")["size_bytes"] > 0
    kind.check(made, ROWS)
    assert dataset.list_indices() == []


def test_optimize_covers_new_rows_and_new_partitions(kind: Kind, dataset: Any) -> None:
    made = dataset.create_scalar_index("id", "BTREE", zone_size=7)
    made = kind.append(made, (6, "a", 60), (7, "new", 70))
    assert num_rows(made, "id_idx") == (5, 2)
    optimized = made.optimize_indices()
    assert optimized.version == made.version + 1
    assert num_rows(optimized, "id_idx") == (7, 0)
    assert optimized.optimize_indices().version == optimized.version
    kind.check(optimized, [*ROWS, (6, "a", 60), (7, "new", 70)])


def test_deferred_compaction_keeps_coverage_until_optimized(kind: Kind, dataset: Any) -> None:
    made = dataset.create_scalar_index("id", "BTREE")
    for number in (6, 7):
        made = kind.append(made, (number, "a", number * 10)).optimize_indices()
    found = [*ROWS, (6, "a", 60), (7, "a", 70)]
    if kind.stable_row_ids:
        with pytest.raises(UnsupportedFeatureError, match="stable row ids"):
            made.compact(target_rows_per_fragment=100, defer_index_remap=True)
        return
    compacted = made.compact(target_rows_per_fragment=100, defer_index_remap=True)
    assert num_rows(compacted, "id_idx") == (7, 0)
    uuids = {entry["uuid"] for entry in compacted.list_indices() if entry["name"] == "id_idx"}
    assert uuids == {entry["uuid"] for entry in made.list_indices()}
    kind.check(compacted, found)
    optimized = compacted.optimize_indices()
    assert uuids != {entry["uuid"] for entry in optimized.list_indices()}
    assert optimized.optimize_indices().version == optimized.version
    assert "id = 6" in optimized.explain("id = 6")
    kind.check(optimized, found)


def test_merge_by_an_indexed_key_finds_stale_and_uncovered_rows(
    kind: Kind, dataset: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def plan(scan: Scan, manifest: Manifest) -> Plan:
        asked.append(index_plan(scan, manifest))
        return asked[-1]

    monkeypatch.setattr("lance_spark.table.row_level.key_index.index_plan", plan)
    monkeypatch.setattr("lance_spark.table.row_level.key_index._ROWS_PER_KEY", 1)
    rows = [(number, "a", number) for number in range(100, 200)]
    made = kind.append(dataset, *rows).create_scalar_index("id", "BTREE", zone_size=16)
    made = kind.append(made.delete("id IN (101, 102)"), (102, "a", 7))
    merged = made.merge(table_of((100, "a", 0), (101, "a", 1), (102, "a", 2), (103, "a", 3)), "id")
    assert any(plan.matches for plan in asked)
    kept = [row for row in rows if row[0] > 103]
    kind.check(merged, [*ROWS, *kept, (100, "a", 0), (101, "a", 1), (102, "a", 2), (103, "a", 3)])


def test_optimize_has_the_verbs_of_pylance(kind: Kind, dataset: Any) -> None:
    made = kind.append(dataset.create_scalar_index("id", "BTREE"), (6, "a", 60))
    optimized = made.optimize.optimize_indices(index_names=["id_idx"], num_indices_to_merge=0)
    assert num_rows(optimized, "id_idx") == (6, 0)
    assert optimized.index_statistics("id_idx")["num_segments"] > made.index_statistics("id_idx")["num_segments"]
    compacted = optimized.optimize.optimize_indices(num_indices_to_merge=9).optimize.compact_files()
    assert num_rows(compacted, "id_idx") == (6, 0)
    kind.check(compacted, [*ROWS, (6, "a", 60)])


def test_dropped_index_is_gone(kind: Kind, dataset: Any) -> None:
    made = dataset.create_scalar_index("id").create_scalar_index("v", "ZONEMAP")
    dropped = made.drop_index("id_idx")
    assert dropped.version == made.version + 1
    assert {entry["name"] for entry in dropped.list_indices()} == {"v_idx"}
    with pytest.raises(NotFoundError, match="id_idx"):
        dropped.drop_index("id_idx")
    with pytest.raises(NotFoundError, match="id_idx"):
        dropped.index_statistics("id_idx")
    with pytest.raises(NotFoundError, match="id_idx"):
        dropped.optimize_indices("id_idx")
    kind.check(dropped, ROWS)


def test_name_that_is_taken(dataset: Any) -> None:
    made = dataset.create_scalar_index("id")
    with pytest.raises(AlreadyExistsError, match="id_idx"):
        made.create_scalar_index("id", replace=False)
    replaced = made.create_scalar_index("id")
    assert len(replaced.list_indices()) == len(made.list_indices())
    assert {entry["uuid"] for entry in replaced.list_indices()}.isdisjoint(
        entry["uuid"] for entry in made.list_indices()
    )


def test_default_name_that_another_kind_has_gets_a_number(dataset: Any) -> None:
    made = dataset.create_scalar_index("id").create_scalar_index("id", "ZONEMAP")
    assert {(entry["name"], entry["type"]) for entry in made.list_indices()} == {
        ("id_idx", "BTree"),
        ("id_idx_2", "ZoneMap"),
    }


@pytest.mark.parametrize(
    ("arguments", "error"),
    [(("nope",), NotFoundError), (("id", "QUADTREE"), InvalidInputError), (("id", "NGRAM"), InvalidInputError)],
)
def test_index_that_cannot_be_built(
    kind: Kind, dataset: Any, arguments: tuple[str, ...], error: type[Exception]
) -> None:
    with pytest.raises(error):
        dataset.create_scalar_index(*arguments)
    kind.check(dataset, ROWS)


def test_rows_that_change_and_move_are_found(kind: Kind, dataset: Any) -> None:
    made = dataset.create_scalar_index("id").update({"v": "1"}, "id = 1").delete("id = 2").compact()
    assert made.to_table(filter="id = 1")["v"].to_pylist() == [1]
    assert made.count_rows("id = 2") == 0
    assert made.optimize_indices().count_rows("id >= 1") == 4


def test_segments_of_partitions_are_built_apart_and_committed_together() -> None:
    table: PartitionedDataset = Partitioned(stable_row_ids=False).create(*ROWS)
    segments = {
        partition.object_id: [table.build_index_segment("id", name="i", partition=partition.object_id)]
        for partition in table.index.partitions
    }
    made = table.commit_index_segments(segments)
    assert made.version == table.version + 1
    assert num_rows(made, "i") == (5, 0)
    with pytest.raises(InvalidInputError, match="elsewhere"):
        table.commit_index_segments({"elsewhere": []})


def test_auto_zonemap_covers_what_is_written(kind: Kind, dataset: Any) -> None:
    configured = dataset.update_config({"lance.auto_zonemap": "id, v"})
    made = kind.open(kind.append(configured, *ROWS, (7, "new", 70)))
    statistics = made.index_statistics("id_idx")
    assert (statistics["index_type"], statistics["num_indexed_rows"] > 5) == ("ZoneMap", True)
    made = kind.open(kind.overwrite(made, *ROWS))
    assert num_rows(made, "id_idx") == num_rows(made, "v_idx") == (5, 0)
    assert made.count_rows("id = 3") == 1
    kind.check(made, ROWS)


def test_fields_are_named_as_pylance_names_them(tmp_path: Path) -> None:
    members = pa.array([{"odd.name": 1, "a b": 2, "tick`s": 3, "all": 4}])
    lance_spark.write(pa.table({"top level": [1], "s": members}), tmp_path / "t")
    dataset = lance_spark.open(tmp_path / "t")
    for place, column in enumerate(["top level", "s.`odd.name`", "s.a b", "s.`tick``s`", "s.all"]):
        dataset = dataset.create_scalar_index(column, "btree", name=f"i{place}")
    named = {index["name"]: index["fields"] for index in dataset.list_indices()}
    assert named == {index["name"]: index["fields"] for index in lance.dataset(tmp_path / "t").list_indices()}
    for (column,) in named.values():
        assert dataset.to_table(columns=[column]).num_rows == 1
