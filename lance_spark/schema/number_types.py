"""numpy's types of the numbers that Arrow arrays hold, and the numbers, without pandas.

pandas is no dependency. pyarrow's `to_pandas_dtype` fails without it before version 26, and `to_numpy` imports it where
it is installed, which takes half a second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_NUMBERS: dict[pa.DataType, np.dtype[Any]] = {
    pa.from_numpy_dtype(kind): np.dtype(kind)
    for kind in (
        *(np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
        *(np.float16, np.float32, np.float64),
    )
}


def numpy_type(dtype: pa.DataType) -> np.dtype[Any]:
    """The type of the elements of a buffer with whole or floating-point numbers.

    Raises:
        KeyError: another type.
    """
    return _NUMBERS[dtype]


def elements(values: pa.Array, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The elements of the values' buffer, a view of `dtype`; the elements of nulls are undefined."""
    count = len(values)
    return (
        np.frombuffer(values.buffers()[1], dtype, count, values.offset * dtype.itemsize)
        if count
        else np.empty(0, dtype)
    )
