"""Tables of many small fragments."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

VERSIONS = ("2.0", "2.1", "2.2")


def table_of(num_rows: int, *, null_structs: bool = True) -> pa.Table:
    rng = np.random.default_rng(3)
    texts = ["t" * size for size in rng.integers(0, 20, num_rows).tolist()]
    lists = [list(range(size)) for size in rng.integers(0, 4, num_rows).tolist()]
    some = rng.random(num_rows) < 0.3
    struct_mask = pa.array(some) if null_structs else None
    return pa.table(
        {
            "id": np.arange(num_rows),
            "b": pa.array(rng.random(num_rows) < 0.5, mask=some),
            "s": pa.array(texts, mask=some),
            "l": pa.array(lists, pa.list_(pa.int32())),
            "st": pa.StructArray.from_arrays(
                [pa.array(texts), pa.array(rng.random(num_rows))], ["a", "b"], mask=struct_mask
            ),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(num_rows * 3, np.float32)), 3),
            "w": pa.array([f"word {number % 3}" for number in range(num_rows)]),
            "n": pa.nulls(num_rows, pa.int64()),
        }
    )
