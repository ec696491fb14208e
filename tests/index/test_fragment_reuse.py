"""Compactions that leave index files as they are, and record in a fragment reuse index where rows have moved."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyroaring
import pytest

import lance_spark
from lance_spark._proto import table_pb2
from lance_spark.errors import CorruptFileError
from lance_spark.index.fragment_reuse import FragmentReuse
from lance_spark.index.row_set import RowSet
from lance_spark.table.manifests.index_section import without_fragments
from tests.index.comparisons import append, check, check_all, repeated, write
from tests.support.index.fragment_reuse import check_answered, compact
from tests.support.index.lifecycle import CONDITIONS, History, changed_metadata, indexed, rows


def test_every_kind_answers_after_deferred_compaction(tmp_path: Path, warnings: list[str]) -> None:
    uri = str(tmp_path)
    indexed(uri)
    lance.dataset(uri).delete("id % 7 = 3")
    compact(uri, 200)
    assert len(lance_spark.open(uri).fragments) < 3
    check_answered(uri)
    assert warnings == []


@pytest.mark.slow
def test_chained_compactions_with_deletes_between(tmp_path: Path, warnings: list[str]) -> None:
    uri = str(tmp_path)
    indexed(uri)
    lance.dataset(uri).delete("id % 7 = 3")
    compact(uri, 100)
    lance.dataset(uri).delete("id % 5 = 1")
    check_answered(uri)
    compact(uri, 1000)
    check_answered(uri)
    assert warnings == []


def test_coverage_follows_a_later_commit_of_pylance(tmp_path: Path, warnings: list[str]) -> None:
    """It names the new fragments while the files still hold the old addresses."""
    uri = str(tmp_path)
    indexed(uri)
    compact(uri, 1000)
    lance.dataset(uri).create_scalar_index("id", "BTREE", name="ids")
    check_answered(uri)
    check(uri, "id = 100", index="ids")
    assert warnings == []


@pytest.mark.slow
def test_rows_appended_after_deferred_compaction_are_scanned(tmp_path: Path, warnings: list[str]) -> None:
    uri = str(tmp_path)
    indexed(uri)
    compact(uri, 1000)
    append(uri, rows(40, 5), first_id=10_000)
    check_all(uri, CONDITIONS)
    assert "scanned without index: fragments 4" in lance_spark.open(uri).explain("x = 17")
    lance.dataset(uri).optimize.optimize_indices()
    check_all(uri, CONDITIONS)
    assert "scanned without index: none" in lance_spark.open(uri).explain("x = 17")
    assert warnings == []


def test_segment_that_lost_rows_is_not_used(tmp_path: Path) -> None:
    """The reference library loses rows of BTREE by an immediate compaction after a deferred one."""
    uri = str(tmp_path)
    write(uri, {"v": repeated([0, 1, 2, 3], 60, pa.int64())}, rows_per_file=20).create_scalar_index("v", "BTREE")
    compact(uri, 30)
    compact(uri, 1000, deferred=False)
    assert lance.dataset(uri).to_table(filter="v = 1").num_rows == 0, "the reference library is repaired"
    assert len(check(uri, "v = 1")) == 15
    assert "\nindex:" not in lance_spark.open(uri).explain("v = 1")


@pytest.mark.parametrize(("fields", "covered"), [([1], []), ([0], [3]), (None, [])], ids=["its", "other", "moved"])
def test_change_of_a_compacted_fragment_removes_it_from_coverage(
    tmp_path: Path, fields: list[int] | None, covered: list[int]
) -> None:
    """The index still names fragments before a deferred compaction when the new one changes."""
    uri = str(tmp_path)
    write(uri, {"v": repeated([0, 1, 2, 3], 60, pa.int64())}, rows_per_file=20).create_scalar_index("v", "BITMAP")
    compact(uri, 1000)
    manifest = lance_spark.open(uri).manifest
    assert "scanned without index: none" in lance_spark.open(uri).explain("v = 1")
    changed = replace(manifest, index_section=without_fragments(manifest.index_section, [3], fields))
    dataset = type(lance_spark.open(uri))(lance_spark.open(uri).location, changed)
    assert dataset.count_rows("v = 1") == 15
    expected = "none" if covered else "fragments 3"
    assert dataset.explain("v = 1").endswith(f"scanned without index: {expected}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_random_histories_with_deferred_compactions(tmp_path: Path, seed: int, warnings: list[str]) -> None:
    uri = str(tmp_path)
    indexed(uri)
    history = History(uri, seed + 100)
    draw = random.Random(seed)
    for _ in range(6):
        if draw.random() < 0.5:
            compact(uri, draw.choice([100, 150, 1000]), deferred=draw.random() < 0.7)
            history.steps.append("some compaction")
        else:
            history.step()
        try:
            check_all(uri, CONDITIONS)
        except AssertionError as error:
            raise AssertionError(f"after {history.steps}") from error
    assert warnings == []


@pytest.mark.parametrize("content", [b"\xff\xff", b"\x0a\x04\x0a\x02\xff\xff"], ids=["content", "details"])
def test_broken_fragment_reuse_index_means_a_scan(tmp_path: Path, content: bytes, warnings: list[str]) -> None:
    uri = str(tmp_path)
    write(uri, {"v": repeated([0, 1, 2, 3], 60, pa.int64())}, rows_per_file=20).create_scalar_index("v", "BITMAP")
    compact(uri, 1000)

    def broken(message: table_pb2.IndexMetadata) -> None:
        if message.name == "__lance_frag_reuse":
            message.index_details.value = content

    dataset = changed_metadata(uri, broken)
    assert dataset.count_rows("v = 1") == 15
    assert len(warnings) == 1
    assert "\nindex:" not in dataset.explain("v = 1")


def address(fragment: int, offset: int) -> int:
    return (fragment << 32) + offset


def group(old: dict[int, int], new: dict[int, int], dropped: set[int]) -> table_pb2.FragmentReuseIndexDetails.Group:
    kept = pyroaring.BitMap64(
        [address(id_, row) for id_, count in old.items() for row in range(count) if address(id_, row) not in dropped]
    )
    digest = table_pb2.FragmentReuseIndexDetails.FragmentDigest
    return table_pb2.FragmentReuseIndexDetails.Group(
        changed_row_addrs=kept.serialize(),
        old_fragments=[digest(id=id_, physical_rows=count) for id_, count in old.items()],
        new_fragments=[digest(id=id_, physical_rows=count) for id_, count in new.items()],
    )


def reuse(*groups: table_pb2.FragmentReuseIndexDetails.Group) -> FragmentReuse:
    content = table_pb2.FragmentReuseIndexDetails.InlineContent()
    for place, item in enumerate(groups):
        content.versions.add(dataset_version=place + 1, groups=[item])
    return FragmentReuse.of_content(content.SerializeToString())


def test_moved_rows_follow_the_listed_order_and_the_chain() -> None:
    dropped = {address(0, 3), address(1, 2)}
    first = group({1: 10, 0: 10}, {4: 5, 5: 13}, dropped)
    chain = reuse(first, group({4: 5, 5: 13}, {9: 18}, set()))
    found = RowSet.of_numbers(
        np.array([address(1, 3), address(0, 0), address(0, 3), address(7, 1), address(5, 0)], np.uint64)
    )
    assert sorted(reuse(first).moved(found).part(4)) == [2]
    assert sorted(reuse(first).moved(found).part(5)) == [0, 4]
    assert sorted(chain.moved(found).part(9)) == [2, 5, 9]
    assert sorted(chain.moved(found).part(7)) == [1]
    assert sorted(chain.current([0, 1, 7])) == [7, 9]
    assert sorted(chain.current([0, 7])) == [7]
    assert chain.sources([9]) == {0: 10, 1: 10, 4: 5, 5: 13}


def test_rows_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(CorruptFileError, match="rows of its fragments"):
        reuse(group({0: 10}, {1: 9}, set()))
