"""The pieces of a search find together what the search finds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.table.vector_search.divided import DividedSearch, divided, of_piece, searched_with
from lance_spark.table.vector_search.request import NearestRequest
from lance_spark.table.vector_search.search import Search

ROW_BYTES = 8 * 4
VALUES = np.random.default_rng(3).normal(size=(600, 8)).astype(np.float32)


@pytest.fixture
def dataset(tmp_path: Path) -> lance_spark.Dataset:
    """Twelve fragments of 50 rows, of which an index with two segments covers six, and deleted rows in all."""
    uri = str(tmp_path / "t")
    for start in range(0, 600, 150):
        rows = slice(start, start + 150)
        flat = pa.array(VALUES[rows].ravel(), pa.float32())
        vectors = pa.FixedSizeListArray.from_arrays(flat, 8)
        lance_spark.write(
            pa.table({"id": pa.array(np.arange(600)[rows]), "v": vectors}),
            uri,
            mode="overwrite" if start == 0 else "append",
            max_rows_per_file=50,
        )
        if start == 0:
            lance_spark.open(uri).create_index("v", "ivf_flat", num_partitions=2)
        if start == 150:
            lance_spark.open(uri).optimize.optimize_indices(num_indices_to_merge=0)
    return lance_spark.open(uri).delete("id % 11 = 0")


def planned(dataset: lance_spark.Dataset, query: Any = VALUES[7], **arguments: Any) -> Search:
    search = dataset.plan_nearest(NearestRequest("v", query, 20, **arguments))
    return search.with_metric(dataset.searched_parts(search))


def pieces(dataset: lance_spark.Dataset, search: Search, piece_bytes: int) -> DividedSearch:
    return divided(search, dataset.searched_parts(search), piece_bytes)


@pytest.mark.parametrize("piece_bytes", [0, ROW_BYTES * 50, ROW_BYTES * 120, ROW_BYTES * 10_000])
@pytest.mark.parametrize("places", [[7], [7, 300, 12]])
def test_nearest_rows_of_all_pieces_are_the_result(
    dataset: lance_spark.Dataset, places: list[int], piece_bytes: int
) -> None:
    search = planned(dataset, VALUES[places], filter="id % 2 = 1", nprobes=2)
    (part,) = dataset.searched_parts(search)
    hits = []
    for piece in divided(search, [part], piece_bytes).pieces:
        (found,) = search.nearest_of_parts([of_piece(part, item) for item in piece])
        hits.append({part.key: found})
    result = dataset.searched(search.knowing(hits))
    assert result == dataset.searched(search)
    live = [number for number in range(600) if number % 11 and number % 2]
    expected = []
    for place in places:
        distances = np.square(VALUES[live] - VALUES[place]).sum(1)
        expected += [live[place] for place in np.argsort(distances)[:20]]
    assert result["id"].to_pylist() == expected


def test_many_queries_count_as_groups(dataset: lance_spark.Dataset) -> None:
    for num_queries, times in ((1, 1), (128, 1), (129, 2)):
        search = planned(dataset, VALUES[:num_queries], use_index=False)
        assert pieces(dataset, search, 1).num_bytes == times * 600 * ROW_BYTES


def test_plans_name_what_there_is_to_search(dataset: lance_spark.Dataset) -> None:
    for arguments, text in (
        ({}, "index=v_idx partitions=4 unindexed=300"),
        ({"fast_search": True}, "index=v_idx partitions=4 unindexed=0"),
        ({"use_index": False}, "index=none partitions=0 unindexed=600"),
        ({"metric": "cosine"}, "index=none partitions=0 unindexed=600"),
    ):
        search = planned(dataset, **arguments)
        assert searched_with(search, dataset.searched_parts(search)) == text


def test_each_fragment_is_in_one_piece(dataset: lance_spark.Dataset) -> None:
    found = pieces(dataset, planned(dataset), ROW_BYTES * 120)
    groups = [[sorted(item.fragment_ids) for item in piece] for piece in found.pieces]
    assert groups == [[[0, 1, 2]], [[3, 4, 5]], [[6, 7]], [[8, 9]], [[10, 11]]]
    assert (len(found.segments), found.num_bytes) == (2, 300 * ROW_BYTES)


def test_fast_search_leaves_out_fragments_without_index(dataset: lance_spark.Dataset) -> None:
    search = planned(dataset, fast_search=True)
    found = pieces(dataset, search, 1)
    assert (len(found.segments), found.unindexed, found.num_bytes) == (2, (), 0)
    without = replace(search, index=replace(search.index, use_index=False))
    assert len(pieces(dataset, without, 1).unindexed) == 12
