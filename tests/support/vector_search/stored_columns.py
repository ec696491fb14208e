"""Columns of stored vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import lance_spark
from lance_spark.table.dataset import Dataset


def column_of(values: np.ndarray[Any, Any], nulls: str) -> pa.FixedSizeListArray:
    """Vectors; `nulls` "some" of each seventh row, "late" only in the second half, so that pages differ."""
    rows = np.arange(len(values))
    mask = {"none": None, "some": rows % 7 == 3, "late": (rows % 7 == 3) & (rows > len(values) // 2)}[nulls]
    return pa.FixedSizeListArray.from_arrays(
        pa.array(values.ravel()), values.shape[1], mask=None if mask is None else pa.array(mask)
    )


def opened(uri: str) -> Dataset:
    dataset = lance_spark.open(uri)
    assert isinstance(dataset, Dataset)
    return dataset
