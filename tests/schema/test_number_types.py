from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.schema.number_types import numpy_type

NUMBERS = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
]


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_type_of_numbers_is_that_of_pyarrow(dtype: pa.DataType) -> None:
    assert numpy_type(dtype) == np.dtype(dtype.to_pandas_dtype())


@pytest.mark.parametrize("dtype", [pa.bool_(), pa.string(), pa.timestamp("ns"), pa.decimal128(3, 1)], ids=str)
def test_other_types_have_none(dtype: pa.DataType) -> None:
    with pytest.raises(KeyError):
        numpy_type(dtype)
