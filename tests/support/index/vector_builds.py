"""Tables of clustered vectors for builds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def clustered(num_rows: int, seed: int = 1, dtype: str = "f4", dimension: int = 32) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(20, dimension))
    rows = centres[random.integers(0, 20, num_rows)] + random.normal(scale=0.3, size=(num_rows, dimension))
    return rows.astype(dtype)


def table_of(values: np.ndarray[Any, Any], first_id: int = 0) -> pa.Table:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
    return pa.table({"id": pa.array(range(first_id, first_id + len(values)), pa.int64()), "v": vectors})
