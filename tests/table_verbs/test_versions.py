"""Verbs on versions, properties and files behave alike, whether the table has partitions or not."""

from __future__ import annotations

import pickle
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from lance_spark.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.partitioned.dataset import PartitionedDataset
from tests.table_verbs.kinds import ROWS, Kind, Partitioned, content, table_of


def test_versions_name_their_operations(kind: Kind, dataset: Any) -> None:
    made = dataset.update({"v": "0"}, "id = 1").delete("id = 1")
    entries = made.versions()
    assert [entry.version for entry in entries] == [1, 2, 3, 4]
    assert [entry.operation for entry in entries[1:]] == ["append", "update", "delete"]
    assert [entry.content.num_rows for entry in entries] == [0, 5, 5, 4]
    assert [(entry.difference.added_rows, entry.difference.removed_rows) for entry in entries[1:]] == [
        (5, 0),
        (1, 1),
        (0, 1),
    ]


def test_versions_limit(dataset: Any) -> None:
    made = dataset.delete("id = 1")
    assert [entry.version for entry in made.versions(2)] == [2, 3]
    assert made.versions(0) == []


def test_restore_older_version(kind: Kind, dataset: Any) -> None:
    made = dataset.delete("p = 'a'").restore(dataset.version)
    assert made.version == dataset.version + 2
    kind.check(made, ROWS)


def test_restore_own_version(kind: Kind, dataset: Any) -> None:
    dataset.delete("true")
    kind.check(dataset.restore(), ROWS)


def test_restore_brings_columns_back(kind: Kind, dataset: Any) -> None:
    kind.check(dataset.drop_columns(["v"]).restore(dataset.version), ROWS)


def test_restore_missing_version(dataset: Any) -> None:
    with pytest.raises(NotFoundError):
        dataset.restore(99)


def user_config(dataset: Any) -> dict[str, str]:
    """Without what a partitioned table keeps there about new partitions."""
    return {name: value for name, value in dataset.config.items() if not name.startswith("lance.")}


def test_update_config(kind: Kind, dataset: Any) -> None:
    made = dataset.update_config({"team": "blue", "size": "1"})
    assert user_config(made) == user_config(kind.open(made)) == {"team": "blue", "size": "1"}
    made = made.update_config({"team": None, "size": "2"})
    assert user_config(made) == {"size": "2"}
    kind.check(made, ROWS)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"lance.merge.mode": "sideways"}, r"unknown property lance\.merge\.mode; did you mean lance\."),
        ({"lance.Auto_Compact": "true"}, r"did you mean lance\.auto_compact"),
        ({"lance.compaction.batch_size": "many"}, r"property lance\.compaction\.batch_size takes a positive number"),
        ({"lance.dropped_table_retention": "soon"}, "write it like 14days or 1h 30m, or forever"),
        ({"lance.row_lineage.spill": "maybe"}, "takes true or false"),
        ({"isolation-level": "none"}, "is 'serializable' or 'snapshot'"),
    ],
)
def test_update_config_refuses_what_nobody_would_heed(dataset: Any, entries: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        dataset.update_config({"team": "blue", **entries})
    assert user_config(dataset.newest()) == {}


def test_update_config_after_other_writer(kind: Kind, dataset: Any) -> None:
    kind.append(dataset, (6, "c", 60))
    made = dataset.update_config({"team": "blue"})
    assert user_config(made) == {"team": "blue"}
    kind.check(made, [*ROWS, (6, "c", 60)])


def test_tags(dataset: Any) -> None:
    newer = dataset.delete("id = 1")
    assert newer.create_tag("now").version == newer.version
    tagged = newer.create_tag("before", dataset.version)
    assert (tagged.version, content(tagged)) == (dataset.version, ROWS)
    assert {name: tag.version for name, tag in newer.tags().items()} == {"now": 3, "before": 2}
    assert newer.update_tag("before").version == newer.version
    newer.delete_tag("now")
    assert {name: tag.version for name, tag in newer.tags().items()} == {"before": 3}


def test_create_tag_twice(dataset: Any) -> None:
    dataset.create_tag("t")
    with pytest.raises(InvalidInputError, match="t"):
        dataset.create_tag("t")


def test_create_tag_of_missing_version(dataset: Any) -> None:
    with pytest.raises(NotFoundError):
        dataset.create_tag("t", 99)
    assert dataset.tags() == {}


def test_delete_missing_tag(dataset: Any) -> None:
    with pytest.raises(NotFoundError):
        dataset.delete_tag("t")


def test_changes(kind: Kind, dataset: Any) -> None:
    made = kind.append(dataset, (6, "c", 60)).delete("id = 1")
    found = Counter(
        (row["_change_type"], row["_commit_version"], row["id"], row["p"], row["v"])
        for batch in made.changes(3)
        for row in batch.to_pylist()
    )
    assert found == Counter([("insert", 3, 6, "c", 60), ("delete", 4, 1, "a", 10)])


def test_changes_of_some_versions_and_columns(kind: Kind, dataset: Any) -> None:
    made = dataset.delete("id = 1").delete("id = 3")
    batches = list(made.changes(2, 3, ["id"], from_inclusive=False))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [(row["_change_type"], row["id"]) for row in rows] == [("delete", 1)]


def test_changes_of_missing_version(dataset: Any) -> None:
    with pytest.raises((NotFoundError, InvalidInputError)):
        list(dataset.changes(7, 9))


def test_compact_keeps_rows(kind: Kind, dataset: Any) -> None:
    made = kind.append(kind.append(dataset, (6, "a", 60)).delete("id = 1"), (7, "a", 70))
    compacted = made.compact()
    assert compacted.version == made.version + 1
    kind.check(compacted, [*ROWS[1:], (6, "a", 60), (7, "a", 70)])
    assert compacted.versions(1)[0].content.num_deleted_rows == 0
    assert compacted.compact().version == compacted.version


def test_compact_in_steps(kind: Kind, dataset: Any) -> None:
    made = kind.append(kind.append(dataset, (6, "a", 60)), (7, "a", 70))
    plan = made.plan_compaction()
    results = [made.run_compaction_task(task) for task in getattr(plan, "tasks", plan)]
    assert results
    rival = kind.append(made, (8, "b", 80))
    compacted = made.commit_compaction(results, commit_message="smaller")
    assert (compacted.version, compacted.versions(1)[0].message) == (rival.version + 1, "smaller")
    kind.check(compacted, [*ROWS, (6, "a", 60), (7, "a", 70), (8, "b", 80)])


@pytest.mark.slow
def test_cleanup_removes_old_versions(kind: Kind, dataset: Any) -> None:
    made = dataset.update({"v": "1"}).update({"v": "2"})
    planned = made.cleanup(timedelta(0), dry_run=True)
    assert [entry.version for entry in made.versions()] == [1, 2, 3, 4]
    removed = made.cleanup(timedelta(0))
    assert planned.versions == removed.versions == (1, 2, 3)
    assert removed.data_files >= 2
    assert removed.bytes_removed > 0
    assert [entry.version for entry in made.versions()] == [4]
    kind.check(made, [(row[0], row[1], 2) for row in ROWS])


@pytest.mark.slow
def test_cleanup_keeps_newest_versions(dataset: Any) -> None:
    made = dataset.update({"v": "1"}).update({"v": "2"})
    assert made.cleanup(keep_versions=2).versions == (1, 2)


@pytest.mark.slow
def test_cleanup_refuses_tagged_versions(dataset: Any) -> None:
    dataset.create_tag("t")
    made = dataset.delete("id = 1")
    with pytest.raises(InvalidInputError, match="t"):
        made.cleanup(timedelta(0))
    assert made.cleanup(timedelta(0), error_if_tagged_old_versions=False).versions == (1,)
    assert content(dataset) == ROWS


def test_remove_orphans_keeps_versions(kind: Kind, dataset: Any) -> None:
    made = dataset.delete("id = 1")
    assert made.remove_orphans(timedelta(0)).versions == ()
    assert content(kind.open(made, dataset.version)) == ROWS


def test_pickled_version(kind: Kind, dataset: Any) -> None:
    dataset.delete("true")
    copy = pickle.loads(pickle.dumps(dataset))
    assert type(copy) is type(dataset)
    assert (copy.version, content(copy)) == (dataset.version, ROWS)
    kind.check(copy.restore(), ROWS)


@pytest.fixture
def partitioned() -> PartitionedDataset:
    made: PartitionedDataset = Partitioned(stable_row_ids=False).create(*ROWS)
    return made


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("create_branch", ("b",)),
        ("delete_branch", ("b",)),
        ("shallow_clone", ("memory://clone",)),
        ("add_bases", ([],)),
        ("commit_indices", ([],)),
        ("update_metadata", ({"a": "b"},)),
        ("update_schema_metadata", ({"a": "b"},)),
    ],
)
def test_unsupported_verb_of_partitioned_table(
    partitioned: PartitionedDataset, verb: str, arguments: tuple[Any, ...]
) -> None:
    with pytest.raises(UnsupportedFeatureError, match=partitioned.root):
        getattr(partitioned, verb)(*arguments)
    assert partitioned.newest().version == partitioned.version


def test_compact_of_some_partitions(partitioned: PartitionedDataset) -> None:
    made = partitioned.append(table_of((6, "a", 60), (7, "b", 70)))
    compacted = made.compact("p = 'a'")
    assert [entry.content and entry.content.num_fragments for entry in compacted.versions(2)] == [5, 4]
    assert content(compacted) == content(made)


def test_update_config_of_partitioning_is_refused(partitioned: PartitionedDataset) -> None:
    with pytest.raises(InvalidInputError):
        partitioned.update_config({"schema": "{}"})


def test_dataset_of_table_without_verbs_is_the_same_version(partitioned: PartitionedDataset) -> None:
    plain = super(PartitionedDataset, partitioned).newest()
    assert PartitionedDataset.of(plain).version == partitioned.version
    assert PartitionedDataset.of(partitioned) is partitioned
