"""Which fragments a compaction rewrites together: as the reference library groups them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_spark
from lance_spark._proto import table_pb2
from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.table.maintenance.compaction_options import CompactionOptions
from lance_spark.table.maintenance.compaction_plan import Size, bins, plan_compaction
from lance_spark.table.manifests.fragment_reuse import FRAGMENT_REUSE
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import with_indices

TEN = CompactionOptions(target_rows_per_fragment=10)


def written(uri: str) -> None:
    lance.write_dataset(pa.table({"a": range(40)}), uri, max_rows_per_file=4)


def physical(uri: str) -> list[int]:
    return [message.physical_rows for message in lance_spark.open(uri).fragments.messages]


def test_grouping() -> None:
    def sizes(*numbers: int) -> list[Size]:
        return [Size(number, number) for number in numbers]

    assert bins(sizes(), TEN) == []
    assert bins(sizes(3), TEN) == bins(sizes(10, 3, 10), TEN) == bins(sizes(10, 25), TEN) == []
    assert bins(sizes(3, 3, 10, 4, 4), TEN) == [[0, 1], [3, 4]]
    assert bins(sizes(4, 4, 4, 4), TEN) == [[0, 1, 2, 3]]
    assert bins(sizes(4, 4, 4, 4, 4, 4), TEN) == [[0, 1, 2], [3, 4, 5]]
    assert bins(sizes(6, 6, 6, 6, 6), TEN) == [[0, 1], [2, 3, 4]]
    assert bins([Size(100, 95), Size(100, 85), Size(100, 0)], TEN) == [[1, 2]]
    assert bins([Size(100, 85)], CompactionOptions(10, materialize_deletions=False)) == []
    assert bins([Size(100, 85)], CompactionOptions(10, materialize_deletions_threshold=0.2)) == []
    assert bins([Size(5, 5, 99), Size(5, 5, 1), Size(5, 5, 1)], CompactionOptions(10, max_bytes_per_file=50)) == [
        [1, 2]
    ]


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(2, 9)), min_size=2, max_size=9), st.integers(1, 20))
@settings(max_examples=15, deadline=None)
def test_pylance_groups_the_same(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[int, int]], target: int
) -> None:
    folder = tmp_path_factory.mktemp("t")
    own, committed = str(folder / "ours"), str(folder / "theirs")
    top = 0
    for number, (size, every) in enumerate(parts):
        table = pa.table({"a": range(top, top + size), "gone": [n % every == 0 for n in range(1, size + 1)]})
        lance.write_dataset(table, own, mode="append" if number else "create")
        top += size
    if any(size >= every for size, every in parts):
        lance.dataset(own).delete("gone")
    shutil.copytree(own, committed)
    lance.dataset(committed).optimize.compact_files(target_rows_per_fragment=target)
    lance_spark.open(own).compact(target_rows_per_fragment=target)
    assert physical(own) == physical(committed)
    assert lance.dataset(own).to_table() == lance.dataset(committed).to_table()


def test_the_config_is_the_default(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    written(uri)
    dataset = lance_spark.open(uri).update_config({"lance.compaction.target_rows_per_fragment": "8"})
    assert len(dataset.plan_compaction().tasks) == 5
    assert dataset.compact(target_rows_per_fragment=4).version == dataset.version
    assert [fragment.physical_rows for fragment in dataset.compact().fragments] == [8] * 5
    config = {
        "lance.compaction.materialize_deletions": "False",
        "lance.compaction.materialize_deletions_threshold": "1",
    }
    assert CompactionOptions.of(config, batch_size=5) == CompactionOptions(
        materialize_deletions=False, materialize_deletions_threshold=1.0, batch_size=5
    )
    for name, text in (("target_rows_per_fragment", "many"), ("materialize_deletions", "2"), ("batch_size", "0")):
        with pytest.raises(InvalidInputError):
            CompactionOptions.of({f"lance.compaction.{name}": text})


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=40), st.integers(1, 40))
@settings(max_examples=200, deadline=None)
def test_grouping_of_anything(numbers: list[tuple[int, int]], target: int) -> None:
    sizes = [Size(max(pair), min(pair)) for pair in numbers]
    options = CompactionOptions(target_rows_per_fragment=target)
    found = bins(sizes, options)
    places = [place for group in found for place in group]
    assert places == sorted(set(places))
    assert all(group == list(range(group[0], group[-1] + 1)) for group in found)
    untouched = set(range(len(sizes))) - set(places)
    assert all(sizes[place].live_rows * 10 >= sizes[place].physical_rows * 9 for place in untouched)
    assert not any(
        {place, place + 1} <= untouched and max(sizes[place].physical_rows, sizes[place + 1].physical_rows) < target
        for place in range(len(sizes))
    )
    # What comes out is no work for the next compaction.
    after: list[Size] = []
    for place, size in enumerate(sizes):
        if place in untouched:
            after.append(size)
        for group in found:
            if group[0] == place:
                live = sum(sizes[number].live_rows for number in group)
                after += [Size(limits.max_rows, limits.max_rows) for limits in options.file_limits(live)]
    assert sum(size.live_rows for size in after) == sum(size.live_rows for size in sizes)
    again = bins(after, options)
    assert all(sum(after[place].physical_rows < target for place in group) > 1 for group in again)


def test_a_hundred_thousand_fragments_are_planned_at_once() -> None:
    sizes = [Size(10, 10)] * 100_000
    assert sum(map(len, bins(sizes, CompactionOptions(1 << 20)))) == 100_000
    assert len(bins(sizes, CompactionOptions(20))) == 50_000


@pytest.mark.parametrize(
    ("content", "index_version", "reason"),
    [(b"\xff", 0, "is broken"), (b"", 1, "is of a newer version")],
    ids=["broken", "newer"],
)
def test_fragment_reuse_index_that_cannot_be_extended_is_refused(
    tmp_path: Path, content: bytes, index_version: int, reason: str
) -> None:
    uri = str(tmp_path / "t")
    written(uri)
    dataset = lance_spark.open(uri)
    message = table_pb2.IndexMetadata(
        name=FRAGMENT_REUSE, uuid=table_pb2.UUID(uuid=bytes(16)), index_version=index_version
    )
    message.index_details.value = content
    section = with_indices(None, [IndexMetadata.from_proto(message)])
    manifest = replace(dataset.manifest, index_section=section)
    with pytest.raises(UnsupportedFeatureError, match=f"{reason}.*drop the indexes"):
        plan_compaction(dataset.location, manifest)


@pytest.mark.parametrize(
    "options",
    [
        {"target_rows_per_fragment": 0},
        {"max_bytes_per_file": -1},
        {"materialize_deletions_threshold": 1.5},
        {"batch_size": 0},
    ],
)
def test_options_that_make_no_sense(options: dict[str, int]) -> None:
    with pytest.raises(InvalidInputError):
        CompactionOptions(**options)  # type: ignore[arg-type]
