"""Estimates of compactions, and `lance.auto_compact`: write commits compact once enough fragments are small."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from lance_spark.errors import StorageError
from lance_spark.partitioned.maintenance import compaction as partitioned_auto_compaction
from lance_spark.table.maintenance import auto_compaction
from lance_spark.table.versions.known_properties import KNOWN_PROPERTIES, KnownProperty
from tests.table_verbs.kinds import Kind, Row, content

ENABLED = {"lance.auto_compact": "true", "lance.auto_compact.min_fragments": "4"}


def rows(first: int, count: int = 1) -> list[Row]:
    return [(number, "a", number * 10) for number in range(first, first + count)]


def num_fragments(dataset: Any) -> int:
    return sum(len(split.manifest.fragments) for split in dataset.splits())


@pytest.fixture
def empty(kind: Kind) -> Any:
    return kind.create()


def append_each(kind: Kind, dataset: Any, numbers: range) -> list[int]:
    """Appends single rows; the number of fragments after each."""
    counts = []
    for number in numbers:
        kind.append(dataset, *rows(number))
        counts.append(num_fragments(kind.open(dataset)))
    return counts


def test_appends_compact_when_enough_fragments_are_small(kind: Kind, empty: Any) -> None:
    configured = empty.update_config(ENABLED)
    assert append_each(kind, configured, range(7)) == [1, 2, 3, 1, 2, 3, 1]
    newest = kind.open(empty)
    assert content(newest) == rows(0, 7)
    # Seven appends and two compactions: a compaction causes no other.
    assert newest.version == configured.version + 9


@pytest.mark.parametrize("config", [{}, {**ENABLED, "lance.auto_compact": "false"}, {"lance.auto_compact": "true"}])
def test_appends_without_the_property_or_below_the_threshold_do_not_compact(
    kind: Kind, empty: Any, config: dict[str, str]
) -> None:
    configured = empty.update_config(config) if config else empty
    assert append_each(kind, configured, range(6)) == [1, 2, 3, 4, 5, 6]


def test_update_and_delete_compact(kind: Kind, empty: Any) -> None:
    for number in range(4):
        kind.append(empty, *rows(2 * number, 2))
    configured = kind.open(empty).update_config(ENABLED)
    assert num_fragments(configured) == 4
    configured.delete("v = 10")
    assert num_fragments(kind.open(empty)) == 1
    for number in range(10, 12):
        kind.append(empty, *rows(number))
    kind.open(empty).update({"v": "7"}, "v = 20")
    newest = kind.open(empty)
    assert num_fragments(newest) == 1
    assert content(newest) == sorted([*rows(0), (2, "a", 7), *rows(3, 5), *rows(10, 2)], key=str)


def test_invalid_property_is_logged_and_the_write_stays(
    kind: Kind, empty: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As another writer that does not look at the values.
    monkeypatch.setitem(KNOWN_PROPERTIES, "lance.auto_compact", KnownProperty("any text", str))
    configured = empty.update_config({"lance.auto_compact": "yes"})
    with caplog.at_level(logging.WARNING):
        kind.append(configured, *rows(0))
    assert "compacting after it failed: lance.auto_compact is 'yes'; write true or false" in caplog.text
    assert content(kind.open(empty)) == rows(0)


def test_failed_compaction_is_logged_and_the_write_stays(
    kind: Kind, empty: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> Any:
        raise StorageError("the store is full")

    monkeypatch.setattr(auto_compaction, "commit_compaction", fail)
    monkeypatch.setattr(partitioned_auto_compaction, "commit_partition_compaction", fail)
    configured = empty.update_config({**ENABLED, "lance.auto_compact.min_fragments": "2"})
    with caplog.at_level(logging.WARNING):
        assert append_each(kind, configured, range(2)) == [1, 2]
    assert "is committed; compacting after it failed: the store is full" in caplog.text
    assert content(kind.open(empty)) == rows(0, 2)


def test_compaction_is_bounded_by_bytes(kind: Kind, empty: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        kind.append(empty, *rows(number))
    configured = kind.open(empty).update_config(ENABLED)
    (split,) = (split for split in configured.splits() if len(split.manifest.fragments))
    file_bytes = [message.files[0].file_size_bytes for message in split.manifest.fragments.messages]
    monkeypatch.setattr(auto_compaction.CompactionBudget.__init__, "__defaults__", (sum(file_bytes[:3]),))
    kind.append(configured, *rows(6))
    newest = kind.open(empty)
    # Three of seven fragments became one.
    assert num_fragments(newest) == 5
    assert content(newest) == rows(0, 7)


def test_zone_maps_cover_what_was_compacted(kind: Kind, empty: Any) -> None:
    configured = empty.update_config({**ENABLED, "lance.auto_zonemap": "id"})
    append_each(kind, configured, range(4))
    newest = kind.open(empty)
    assert num_fragments(newest) == 1
    assert [index["num_unindexed_fragments"] for index in statistics(newest)] == [0]
    assert newest.to_table(filter="id = 2").num_rows == 1


def statistics(dataset: Any) -> list[dict[str, Any]]:
    return [dataset.index_statistics(entry["name"]) for entry in dataset.list_indices()]


def test_estimate_is_what_a_compaction_does_to_both_kinds(kind: Kind, empty: Any) -> None:
    for number in range(3):
        kind.append(empty, *rows(10 * number, 4), (90 + number, "b", None))
    kind.open(empty).delete("id = 1")
    before = kind.open(empty)
    estimate = before.estimate_compaction()
    after = before.compact()
    assert estimate.small_fragments == estimate.fragments_removed == num_fragments(before)
    assert estimate.fragments_added == num_fragments(after)
    assert (estimate.rows_rewritten, estimate.deleted_rows_removed) == (14, 1)
    again = after.estimate_compaction()
    assert (again.small_fragments, again.fragments_removed, again.rows_rewritten) == (num_fragments(after), 0, 0)
