"""BLOOMFILTER: for each zone a split-block Bloom filter of its values, as in Parquet.

``bloomfilter.lance`` has the columns `has_null`, `bloom_filter_data` and those of the zones' rows. A filter is a number
of blocks of eight 32-bit words. The XXH64 hash of a value selects a block, and in each of its words one bit; a value
whose bits are not all set is not in the zone.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.expr.literals import Literal
from lance_spark.expr.membership import constant_options
from lance_spark.expr.nodes import Column, Comparison, ComparisonOp, Expr, In
from lance_spark.expr.values import plain
from lance_spark.index.base import Coverage, Fit, Predicate, ScalarIndex, SearchResult
from lance_spark.index.files import IndexFile, IndexFiles, require_no_nulls
from lance_spark.index.shapes import null_test
from lance_spark.index.spans import span_of
from lance_spark.index.zones import ZoneRows, search_nulls
from lance_spark.kernels.bloom import filters_with
from lance_spark.layouts.base import RowRanges

BLOOM_FILE = "bloomfilter.lance"
_BLOCK_BYTES = 32
_WINDOW_ZONES = 256
"""Zones whose filters are read, and kept, together."""

_MAX_VALUES = 256
"""Lists with more values are scanned: some value is in most zones."""


class BloomFilterIndex(ScalarIndex):
    """A segment of a BLOOMFILTER index."""

    type_name = "BLOOMFILTER"
    type_url = "/lance.index.pb.BloomFilterIndexDetails"
    max_version = 0

    def __init__(self, files: IndexFiles, coverage: Coverage) -> None:
        super().__init__(files, coverage)
        self._checked: ZoneRows | None = None

    @classmethod
    def fit(cls, predicate: Predicate) -> Fit:
        if null_test(predicate.expr) is not None:
            return Fit.SUPERSET
        options = _options(predicate.expr)
        return Fit.NONE if options is None or len(options) > _MAX_VALUES else Fit.SUPERSET

    def search(self, predicate: Predicate) -> SearchResult | None:
        file = self._files.open(BLOOM_FILE)
        rows = file.kept("zones", lambda: _load(file))
        if self._checked is not rows:
            rows.check(file, self._coverage)
            self._checked = rows
        exact = search_nulls(file, predicate, self._coverage)
        values = _searched_values(predicate)
        if exact is not None or values is None:
            return exact
        wanted = pa.array(values, pa.binary())
        num_zones = len(rows.starts)

        def load(windows: Sequence[int]) -> list[tuple[_Filters, int]]:
            found = (_Filters.of(file, window * _WINDOW_ZONES, num_zones) for window in windows)
            return [(filters, filters.num_bytes) for filters in found]

        kept = [np.empty(0, np.bool_)]
        for window in range(-(-num_zones // _WINDOW_ZONES)):
            (filters,) = file.kept_rows("filters", [window], load)
            kept.append(filters.may_have(wanted))
        return SearchResult(rows.rows(np.concatenate(kept), self._coverage.fragment_rows), is_exact=False)


def _load(file: IndexFile) -> tuple[ZoneRows, int]:
    rows = ZoneRows.of(file)
    return rows, rows.num_bytes


@dataclass(frozen=True, slots=True)
class _Filters:
    """The filters of n zones in a row.

    Attributes:
        words: uint32, one filter after the other.
        firsts: int64[n], where they start.
        num_blocks: int64[n].
        is_empty: bool[n], True for a filter that nothing was put into.
    """

    words: npt.NDArray[np.uint32]
    firsts: Int64Array
    num_blocks: Int64Array
    is_empty: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, file: IndexFile, first_zone: int, num_zones: int) -> _Filters:
        """The filters of the window that begins with zone `first_zone`.

        Raises:
            CorruptFileError: one is missing, or has no whole number of blocks.
        """
        rows = RowRanges.of(first_zone, min(first_zone + _WINDOW_ZONES, num_zones))
        (cells,) = file.columns({"bloom_filter_data": pa.binary()}, rows)
        require_no_nulls(file, [cells])
        _, offsets, data = cells.buffers()
        ends = np.frombuffer(offsets, np.int32)[cells.offset : cells.offset + len(cells) + 1].astype(np.int64)
        sizes = np.diff(ends)
        wrong = np.flatnonzero((sizes == 0) | (sizes % _BLOCK_BYTES != 0))
        if len(wrong):
            raise file.damaged(f"a Bloom filter has {sizes[wrong[0]]} bytes, not a multiple of {_BLOCK_BYTES}")
        words = np.frombuffer(data, "<u4", count=int(ends[-1] - ends[0]) // 4, offset=int(ends[0]))
        firsts = (ends[:-1] - ends[0]) // 4
        is_empty = np.bitwise_or.reduceat(words, firsts) == 0
        return cls(words, firsts, sizes // _BLOCK_BYTES, is_empty)

    @property
    def num_bytes(self) -> int:
        """Memory of the filters, in bytes."""
        return self.words.nbytes + self.firsts.nbytes + self.num_blocks.nbytes

    def may_have(self, values: pa.Array) -> npt.NDArray[np.bool_]:
        """bool[n]: which zones may have one of some values, as the bytes that are hashed."""
        # A filter that nothing was put into belongs to a zone of nulls, or is damaged.
        return filters_with(values, self.words, self.firsts, self.num_blocks) | self.is_empty


def _searched_values(predicate: Predicate) -> list[bytes] | None:
    """The values that a row must have one of, as the bytes that are hashed; None if the condition is no equality."""
    options = _options(predicate.expr)
    if options is None or len(options) > _MAX_VALUES:
        return None
    span = span_of(predicate.expr, predicate.dtype)
    if span is not None and isinstance(span.only, str):
        return [span.only.encode()]
    # The type that the evaluation compares in; it is that of the column, but for half-precision floats.
    dtype = plain(pa.array([], predicate.dtype)).type
    known = constant_options(dtype, options, predicate.time_zone).known
    if known is None:
        return None
    if pa.types.is_floating(predicate.dtype):
        return _float_values(known.to_numpy(), predicate.dtype)
    return None if known.type != predicate.dtype else list(_value_bytes(known))


def _options(expr: Expr) -> tuple[Literal, ...] | None:
    """The constants that a condition compares its column with for equality."""
    if isinstance(expr, Comparison) and expr.op is ComparisonOp.EQ:
        sides = (expr.left, expr.right) if isinstance(expr.left, Column) else (expr.right, expr.left)
        return (sides[1],) if isinstance(sides[0], Column) and isinstance(sides[1], Literal) else None
    if isinstance(expr, In) and isinstance(expr.value, Column):
        return cast("tuple[Literal, ...]", expr.options) if expr.has_constants else None
    return None


def _float_values(values: npt.NDArray[np.float64], dtype: pa.DataType) -> list[bytes] | None:
    """The bits of floats, both zeros for a zero; None for NaN, which has too many forms to look for."""
    if pa.types.is_float16(dtype) or bool(np.isnan(values).any()):
        return None
    form, own = ("<f", np.float32) if pa.types.is_float32(dtype) else ("<d", np.float64)
    with np.errstate(over="ignore"):
        # A double that is no float of 32 bits equals none of them.
        exact = [value for value in values.tolist() if float(own(value)) == value]
    return [struct.pack(form, signed) for value in exact for signed in ((value,) if value else (0.0, -0.0))]


def _value_bytes(values: pa.Array) -> Iterator[bytes]:
    """Values without nulls as little-endian numbers of their own width, texts and binaries as they are."""
    if pa.types.is_primitive(values.type):
        width = values.type.bit_width // 8
        data = values.buffers()[1]
        start = values.offset * width
        body = b"" if data is None else bytes(data)[start : start + len(values) * width]
        yield from (body[place : place + width] for place in range(0, len(body), width))
        return
    for value in values:
        found = value.as_py()
        yield found.encode() if isinstance(found, str) else found
