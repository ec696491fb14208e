"""Which addresses of an index a search may return."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import lance
import numpy as np
import pyroaring

import lance_spark
from lance_spark.index.files import IndexFiles
from lance_spark.index.vector.segment import VectorSegment
from lance_spark.table.vector_search.live_rows import live_rows
from tests.support.vector_search.tables import clustered, vectors, write


def test_addresses_outside_the_fragments_are_not_returned(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    write(uri, vectors(clustered(40, 4, "f4")), max_rows_per_file=10)
    lance.dataset(uri).delete("id < 20 or id = 33")
    dataset = lance_spark.open(uri)
    covered = pyroaring.BitMap([2, 3])
    assert {fragment.id for fragment in dataset.fragments} == set(covered)
    segment = VectorSegment("v_idx", "a", covered, cast(IndexFiles, None), 4)
    live = live_rows(dataset.manifest, covered, segment, dataset.plan(["v"]), None)
    expected = {(fragment << 32) + offset: (fragment, offset) != (3, 3) for fragment in (2, 3) for offset in range(10)}
    outside = [0, 9, (1 << 32) + 3, (2 << 32) - 1, (2 << 32) + 10, (3 << 32) + 10, (4 << 32), (3 << 33), 2**64 - 1]
    addresses: Any = np.array([*expected, *outside], np.uint64)
    found, returned = live(addresses)
    assert found.tolist() == addresses.tolist()
    assert returned.tolist() == [*expected.values(), *[False] * len(outside)]
    assert live.may_exclude
