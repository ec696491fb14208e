"""The functions `murmur3` and `murmur3_multi` of the partitioning specification, over Arrow arrays.

The specification defines the algorithm (Murmur3 x86, 32 bits, seed 0, signed) and requires equal values of different
types to have the same hash ("type-promotion resistant"), but does not define the bytes of a value. These are:

An integer below is 8 bytes, little-endian, two's complement; nanoseconds are rounded down to microseconds.

| type | bytes |
|---|---|
| integers of all widths, booleans (1, 0) | an integer |
| floats of all widths | 8, the little-endian double; -0.0 as 0.0, every NaN as `0x7ff8000000000000` |
| decimals | the unscaled value without trailing zeros of the fraction: an integer; else all 16 or 32 bytes |
| dates | days since 1970-01-01 as an integer |
| timestamps | microseconds since 1970-01-01 (in UTC; in local time without a zone) as an integer |
| times of day, durations | microseconds as an integer |
| strings | UTF-8 |
| binaries | unchanged |

So `1`, `1.00` (decimal) and `TRUE` share a bucket. The bytes of several columns are concatenated; nulls have no
bytes.

>>> murmur3(pa.array([34, None], pa.int8())).to_pylist(), murmur3(pa.array(["iceberg"])).to_pylist()
([2017239379, None], [1210000089])
>>> murmur3_multi([pa.array([34, None]), pa.array([None, None], pa.string())]).to_pylist()
[2017239379, None]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.datetime_text import NANOS_PER_UNIT
from lance_spark.expr.values import Family, family_of, plain
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.murmur3 import canonical_decimals, hash_rows

_NAN_BITS = 0x7FF8000000000000


@dataclass(frozen=True, slots=True)
class _ByteForm:
    """The bytes of each value in the form for `hash_rows`; keeps the arrays alive because words are only addresses."""

    data: npt.NDArray[np.uint8] | pa.Buffer | None
    stride: int = 8
    offsets: npt.NDArray[np.int64] | None = None
    lengths: npt.NDArray[np.int64] | None = None

    def words(self, values: pa.Array) -> list[int]:
        validity = values.buffers()[0] if values.null_count else None
        return [
            _address(self.data),
            _address(self.offsets),
            self.stride,
            _address(self.lengths),
            _address(validity),
            values.offset,
        ]


def _address(data: npt.NDArray[np.generic] | pa.Buffer | None) -> int:
    if data is None:
        return 0
    return int(data.address) if isinstance(data, pa.Buffer) else address_of(data)


def murmur3(values: pa.Array) -> pa.Int32Array:
    """The hash of each value, null for null: int32[len(values)].

    Raises:
        InvalidInputError: nested types and calendar intervals have no hash.
    """
    return murmur3_multi([values])


def murmur3_multi(columns: Sequence[pa.Array]) -> pa.Int32Array:
    """The hash of each row of the columns (of one length), skipping nulls, null if all are null: int32[num_rows].

    Raises:
        InvalidInputError: as `murmur3`, or columns of different lengths.
    """
    if len({len(column) for column in columns}) != 1:
        raise InvalidInputError(f"murmur3 takes columns of one length, got {[len(column) for column in columns]}")
    num_rows = len(columns[0])
    plain_columns = [plain(column) for column in columns]
    plain_columns = [column for column in plain_columns if not pa.types.is_null(column.type)]
    if not plain_columns:
        return pa.nulls(num_rows, pa.int32())
    forms = [_byte_form(column) for column in plain_columns]
    words = np.array([form.words(column) for form, column in zip(forms, plain_columns, strict=True)], np.int64)
    hashes, valid = np.empty(num_rows, np.int32), np.empty(num_rows, np.uint8)
    hash_rows(address_of(words), len(plain_columns), num_rows, address_of(hashes), address_of(valid))
    return pa.array(hashes, mask=valid == 0)


def check_hashable(type_: pa.DataType) -> None:
    """Checks that values of the type have a hash. Raises as `murmur3`."""
    _byte_form_of(plain(pa.nulls(0, type_)).type)


def _byte_form(values: pa.Array) -> _ByteForm:
    return _byte_form_of(values.type)(values)


def _byte_form_of(type_: pa.DataType) -> Callable[[pa.Array], _ByteForm]:
    family = family_of(type_)
    if family is None:
        raise InvalidInputError(f"murmur3 is not defined for {type_}")
    return _FORMS[family]


def _fixed(words: npt.NDArray[np.generic]) -> _ByteForm:
    return _ByteForm(np.ascontiguousarray(words).view(np.uint8))


def _ticks(values: pa.Array) -> npt.NDArray[np.int64]:
    """The integer representation of values of a type of 32 or 64 bits; undefined for nulls."""
    dtype = np.dtype(f"i{values.type.bit_width // 8}")
    data = values.buffers()[1]
    if data is None or len(values) == 0:
        return np.zeros(len(values), np.int64)
    return np.frombuffer(data, dtype, len(values), values.offset * dtype.itemsize).astype(np.int64)


def _from_integers(values: pa.Array) -> _ByteForm:
    wide = pa.uint64() if values.type == pa.uint64() else pa.int64()
    return _fixed(values.cast(wide).fill_null(0).to_numpy(zero_copy_only=False))


def _from_booleans(values: pa.Array) -> _ByteForm:
    return _from_integers(values.cast(pa.int8()))


def _from_floats(values: pa.Array) -> _ByteForm:
    doubles = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
    bits = (doubles + 0.0).view(np.uint64)
    return _fixed(np.where(np.isnan(doubles), np.uint64(_NAN_BITS), bits))


def _from_dates(values: pa.Array) -> _ByteForm:
    return _fixed(_ticks(values))


def _from_units(values: pa.Array) -> _ByteForm:
    ticks, nanos = _ticks(values), NANOS_PER_UNIT[values.type.unit]
    # Beyond 64 bits the product wraps around, equally for all units of one instant.
    return _fixed(np.floor_divide(ticks, 1000) if nanos == 1 else ticks * (nanos // 1000))


def _from_decimals(values: pa.Array) -> _ByteForm:
    width = values.type.byte_width
    data = values.buffers()[1]
    target = np.zeros(len(values) * width, np.uint8)
    lengths = np.zeros(len(values), np.int64)
    if len(values):
        start = data.address + values.offset * width
        canonical_decimals(start, width // 8, len(values), values.type.scale, address_of(target), address_of(lengths))
    return _ByteForm(target, width, lengths=lengths)


def _from_bytes(values: pa.Array) -> _ByteForm:
    is_large = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    dtype = np.dtype(np.int64 if is_large else np.int32)
    _, offsets, data = values.buffers()
    if offsets is None or len(values) == 0:
        return _ByteForm(None, offsets=np.zeros(len(values) + 1, np.int64))
    starts = np.frombuffer(offsets, dtype, len(values) + 1, values.offset * dtype.itemsize).astype(np.int64)
    if starts[0] < 0 or np.any(np.diff(starts) < 0) or starts[-1] > (0 if data is None else data.size):
        raise InvalidInputError("the offsets of a string or binary array fall, or lie outside of its data")
    return _ByteForm(data, offsets=starts)


_FORMS: dict[Family, Callable[[pa.Array], _ByteForm]] = {
    Family.BOOLEAN: _from_booleans,
    Family.INTEGER: _from_integers,
    Family.FLOAT: _from_floats,
    Family.DECIMAL: _from_decimals,
    Family.DATE: _from_dates,
    Family.TIMESTAMP: _from_units,
    Family.TIMESTAMP_NTZ: _from_units,
    Family.TIME: _from_units,
    Family.DURATION: _from_units,
    Family.STRING: _from_bytes,
    Family.BINARY: _from_bytes,
    Family.NULL: lambda values: _ByteForm(None),
}
