"""Rows found by their stable ids lie where pylance says."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

import lance_spark
from lance_spark.table.rows.row_id_places import RowIdPlaces


def test_rows_of_ids_lie_where_pylance_says(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": range(40)}), uri, enable_stable_row_ids=True, max_rows_per_file=15)
    # Rows that are updated keep their ids in a new fragment.
    lance.dataset(uri).update({"a": "a + 100"}, where="a % 7 = 3")
    reference = lance.dataset(uri).to_table(columns=[], with_row_id=True, with_row_address=True)
    expected: dict[int, set[int]] = defaultdict(set)
    chosen = [3, 4, 10, 14, 15, 38, 39]
    for row in reference.to_pylist():
        if row["_rowid"] in chosen:
            expected[row["_rowaddr"] >> 32].add(row["_rowaddr"] & 0xFFFFFFFF)
    places = RowIdPlaces.of(lance_spark.open(uri).manifest.fragments.messages)
    assert places is not None
    found = places.rows(np.array([*chosen, 1000], np.uint64))
    deleted = {0: {3, 10}, 2: {8}}  # Where 3, 10 and 38 were before the update.
    live = {fragment: set(offsets) - deleted.get(fragment, set()) for fragment, offsets in found.items()}
    assert {fragment: offsets for fragment, offsets in live.items() if offsets} == dict(expected)
    assert places.rows(np.array([1000], np.uint64)) == {}
