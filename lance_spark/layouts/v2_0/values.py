"""What Arrow takes for granted of values, checked once where they come from a file.

Strings have to be UTF-8, and decimals, times and `date64` lie in a range. Offsets are checked where they are made.
"""

from __future__ import annotations

import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.kernels.utf8 import has_only_ascii


def checked(array: pa.Array) -> pa.Array:
    """`array` itself.

    Raises:
        CorruptFileError: it holds values that its type does not allow.
    """
    if _needs_check(array):
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise CorruptFileError(f"a page holds values that its type does not allow: {error}") from error
    return array


def _needs_check(array: pa.Array) -> bool:
    dtype = array.type
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        data = array.buffers()[2]
        return data is not None and not has_only_ascii(data.address, data.size)
    if pa.types.is_dictionary(dtype):
        return _needs_check(array.dictionary)
    if pa.types.is_fixed_size_list(dtype):
        return _needs_check(array.values)
    if pa.types.is_struct(dtype):
        return any(_needs_check(array.field(i)) for i in range(dtype.num_fields))
    return bool(pa.types.is_decimal(dtype) or pa.types.is_time(dtype) or pa.types.is_date64(dtype))
