"""BITMAP: for each distinct value the set of its rows.

``bitmap_page_lookup.lance`` has the columns `keys` (ascending; if there are nulls a null key comes first, or last
once segments have been merged) and `bitmaps` (address maps). A search evaluates the predicate on the keys, which are
its dictionary, and reads the bitmaps of those that satisfy it, so the answer is exact for every predicate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.index.base import Fit, Predicate, ScalarIndex, SearchResult
from lance_spark.index.files import IndexFile, require_no_nulls
from lance_spark.index.row_set import RowSet, union_all
from lance_spark.layouts.base import RowRanges

BITMAP_FILE = "bitmap_page_lookup.lance"
_STATISTICS = "lance:index_stats"


class BitmapIndex(ScalarIndex):
    """A segment of a BITMAP index."""

    type_name = "BITMAP"
    type_url = "/lance.table.BitmapIndexDetails"
    max_version = 0

    @classmethod
    def holds_row_ids(cls, version: int) -> bool:
        return version < 1

    @classmethod
    def fit(cls, predicate: Predicate) -> Fit:
        return Fit.NONE if pa.types.is_nested(predicate.dtype) else Fit.EXACT

    def search(self, predicate: Predicate) -> SearchResult | None:
        file = self._files.open(BITMAP_FILE)
        keys = load_keys(file, predicate.dtype)
        kept = predicate.keeps(keys)
        # Every row is in exactly one bitmap: few bitmaps say as much as all the others.
        is_complement = int(kept.sum()) * 2 > len(kept)
        places = np.flatnonzero(~kept if is_complement else kept)
        rows = union_all(find_bitmaps(file, places, self._coverage.fragment_rows))
        return SearchResult(rows, is_complement=is_complement)


def load_keys(file: IndexFile, dtype: pa.DataType) -> pa.Array:
    """The distinct values, at most one of them null.

    Raises:
        CorruptFileError: the keys are not distinct, or not as many as the file says.
    """

    def load() -> tuple[pa.Array, int]:
        (keys,) = file.columns({"keys": dtype})
        if keys.null_count > 1:
            raise file.damaged("there are several null keys")
        if len(keys) != _num_bitmaps(file, len(keys)):
            raise file.damaged(f"{len(keys)} keys are not as many as the file says")
        if len(keys.unique()) != len(keys) and not pa.types.is_floating(dtype):
            raise file.damaged("a key occurs twice")
        return keys, keys.nbytes

    return file.kept("keys", load)


def read_bitmaps(file: IndexFile, places: Int64Array, fragment_rows: Mapping[int, int]) -> list[RowSet]:
    """The row sets number `places` (int64[n], ascending, distinct).

    Raises:
        CorruptFileError: one of them is no row set.
    """
    return [RowSet.of_address_map(data, fragment_rows) for data in _cells(file, places)]


def find_bitmaps(file: IndexFile, places: Int64Array, fragment_rows: Mapping[int, int]) -> list[RowSet]:
    """The row sets number `places`, see `read_bitmaps`; cached for later searches."""

    def load(missing: Sequence[int]) -> list[tuple[bytes, int]]:
        return [(data, len(data)) for data in _cells(file, np.array(missing, np.int64))]

    found = file.kept_rows("bitmap", places.tolist(), load)
    return [RowSet.of_address_map(data, fragment_rows) for data in found]


def _cells(file: IndexFile, places: Int64Array) -> list[bytes]:
    if not len(places):
        return []
    (cells,) = file.columns({"bitmaps": pa.binary()}, RowRanges(places, places + 1))
    require_no_nulls(file, [cells])
    found: list[bytes] = cells.to_pylist()
    return found


def _num_bitmaps(file: IndexFile, default: int) -> int:
    """The number of keys that the file's metadata has; `default` if it has none."""
    try:
        statistics = json.loads(file.metadata.get(_STATISTICS, "{}"))
    except ValueError as error:
        raise file.damaged(f"its statistics are not JSON: {error}") from error
    found = statistics.get("num_bitmaps", default) if isinstance(statistics, dict) else None
    if not isinstance(found, int):
        raise file.damaged("its statistics have no number of bitmaps")
    return found
