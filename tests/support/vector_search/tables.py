"""Tables of vectors."""

from __future__ import annotations

from typing import Any

import lance
import numpy as np
import pyarrow as pa


def vectors(values: np.ndarray[Any, Any]) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


def clustered(num_rows: int, dimension: int, dtype: str, seed: int = 1) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(seed)
    if dtype == "u1":
        return random.integers(0, 256, (num_rows, dimension), np.uint8)
    centres = random.normal(size=(20, dimension))
    rows = centres[random.integers(0, 20, num_rows)] + random.normal(scale=0.3, size=(num_rows, dimension))
    return rows.astype(dtype)


def write(uri: str, values: pa.Array, **options: Any) -> None:
    table = pa.table({"id": pa.array(range(len(values)), pa.int64()), "v": values})
    lance.write_dataset(table, uri, **options)
