"""Validates values read from files against Arrow's invariants.

Strings must be UTF-8, and decimals, times and `date64` within a range. Offsets are checked where they are computed.
A fast conservative test comes first; Arrow's own, exact validation runs only if it fails.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.utf8 import has_only_ascii
from lance_spark.kernels.value_ranges import decimals_within, integers_below

_SECONDS_PER_DAY = 86_400
PLAIN = {
    dtype.id
    for dtype in (
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
        pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.timestamp("us"), pa.duration("us"),
    )
}  # fmt: skip
"""Types of which all bits are values: asking for each other type takes as long as to read ten values."""

_TICKS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def checked(array: pa.Array) -> pa.Array:
    """Validates `array`, which has offset 0, and returns it.

    Raises:
        CorruptFileError: it has values that its type does not allow.
    """
    if array.type.id not in PLAIN and _is_doubtful(array):
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise CorruptFileError(f"a page holds values that its type does not allow: {error}") from error
    return array


def _is_doubtful(array: pa.Array) -> bool:
    dtype = array.type
    if pa.types.is_dictionary(dtype):
        return _is_doubtful(array.dictionary)
    if pa.types.is_fixed_size_list(dtype):
        return _is_doubtful(array.values)
    if pa.types.is_struct(dtype):
        return any(_is_doubtful(array.field(i)) for i in range(dtype.num_fields))
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        data = array.buffers()[2]
        return data is not None and not has_only_ascii(data.address, data.size)
    if pa.types.is_decimal(dtype) or pa.types.is_time(dtype):
        return len(array) > 0 and not _in_range(array)
    return bool(pa.types.is_date64(dtype))


def _in_range(array: pa.Array) -> bool:
    dtype, address = array.type, array.buffers()[1].address
    width = dtype.bit_width // 8
    if pa.types.is_time(dtype):
        limit = _SECONDS_PER_DAY * _TICKS_PER_SECOND[dtype.unit]
        return bool(integers_below(address, len(array), width, limit))
    bound = np.frombuffer((10**dtype.precision - 1).to_bytes(width, "little"), np.uint64)
    return bool(decimals_within(address, len(array), width // 8, address_of(bound)))
