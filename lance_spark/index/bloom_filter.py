"""BLOOMFILTER: for each zone a split-block Bloom filter of its values, as in Parquet.

``bloomfilter.lance`` has the columns `has_null`, `bloom_filter_data` and those of the zones' rows. A filter is a number
of blocks of eight 32-bit words. The XXH64 hash of a value selects a block, and in each of its words one bit; a value
whose bits are not all set is not in the zone.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.expr.literals import Literal
from lance_spark.expr.membership import options_of
from lance_spark.expr.nodes import Column, Comparison, ComparisonOp, Expr, In
from lance_spark.expr.values import plain
from lance_spark.index.base import Fit, Predicate, ScalarIndex, SearchResult
from lance_spark.index.files import IndexFile, require_no_nulls
from lance_spark.index.shapes import null_test
from lance_spark.index.xxhash64 import xxhash64
from lance_spark.index.zones import ZoneRows, search_nulls
from lance_spark.layouts.base import RowRanges

BLOOM_FILE = "bloomfilter.lance"
_SALTS = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32
)
_BLOCK_BYTES = 32
_WINDOW_ZONES = 64
"""Zones whose filters are in memory at a time."""

_MAX_VALUES = 256
"""Lists with more values are scanned: some value is in most zones."""


class BloomFilterIndex(ScalarIndex):
    """A segment of a BLOOMFILTER index."""

    type_name = "BLOOMFILTER"
    type_url = "/lance.index.pb.BloomFilterIndexDetails"
    max_version = 0

    @classmethod
    def fit(cls, predicate: Predicate) -> Fit:
        if null_test(predicate.expr) is not None:
            return Fit.SUPERSET
        return Fit.NONE if _searched_values(predicate) is None else Fit.SUPERSET

    def search(self, predicate: Predicate) -> SearchResult | None:
        file = self._files.open(BLOOM_FILE)
        rows = self._files.kept(BLOOM_FILE, "zones", lambda: _load(file))
        rows.check(file, self._coverage)
        exact = search_nulls(file, predicate, self._coverage)
        values = _searched_values(predicate)
        if exact is not None or values is None:
            return exact
        hashes = [xxhash64(value) for value in values]
        kept = np.zeros(len(rows.starts), np.bool_)
        for start in range(0, len(kept), _WINDOW_ZONES):
            stop = min(start + _WINDOW_ZONES, len(kept))
            (filters,) = file.columns({"bloom_filter_data": pa.binary()}, RowRanges.of(start, stop))
            require_no_nulls(file, [filters])
            for zone, data in enumerate(filters, start):
                words = _words(file, data.as_buffer())
                # A filter that nothing was put into belongs to a zone of nulls, or is damaged.
                kept[zone] = not words.any() or any(_may_have(words, hash_) for hash_ in hashes)
        return SearchResult(rows.rows(kept, self._coverage.fragment_rows), is_exact=False)


def _load(file: IndexFile) -> tuple[ZoneRows, int]:
    rows = ZoneRows.of(file)
    return rows, rows.num_bytes


def _words(file: IndexFile, data: pa.Buffer) -> npt.NDArray[np.uint32]:
    """uint32[blocks, 8]: a filter."""
    if data.size == 0 or data.size % _BLOCK_BYTES:
        raise file.damaged(f"a Bloom filter has {data.size} bytes, not a multiple of {_BLOCK_BYTES}")
    return np.frombuffer(data, "<u4").reshape(-1, 8)


def _may_have(words: npt.NDArray[np.uint32], hash_: int) -> bool:
    block = ((hash_ >> 32) * len(words)) >> 32
    bits = (np.uint32(hash_ & 0xFFFFFFFF) * _SALTS) >> np.uint32(27)
    return bool(np.all((words[block] >> bits) & np.uint32(1)))


def _searched_values(predicate: Predicate) -> list[bytes] | None:
    """The values that a row must have one of, as the bytes that are hashed; None if the condition is no equality."""
    options = _options(predicate.expr)
    if options is None or len(options) > _MAX_VALUES:
        return None
    # The type that the evaluation compares in; it is that of the column, but for half-precision floats.
    dtype = plain(pa.array([], predicate.dtype)).type
    known = options_of(dtype, [option.scalar() for option in options], predicate.time_zone).known
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
        constants = tuple(option for option in expr.options if isinstance(option, Literal))
        return constants if len(constants) == len(expr.options) else None
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
