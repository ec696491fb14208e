"""Arrays that the reference library encodes in every way."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

N = 5001


RNG = np.random.default_rng(1)


def vectors(items: pa.Array, dimension: int) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(items, dimension)


ARRAYS: dict[str, Callable[[], pa.Array]] = {
    "small int64": lambda: pa.array(RNG.integers(0, 1000, N)),
    "int64": lambda: pa.array(RNG.integers(-(2**62), 2**62, N)),
    "sorted int32": lambda: pa.array(np.sort(RNG.integers(0, 2**30, N)).astype(np.int32)),
    "int16": lambda: pa.array(RNG.integers(0, 100, N).astype(np.int16)),
    "uint8": lambda: pa.array(RNG.integers(0, 100, N).astype(np.uint8)),
    "bool": lambda: pa.array(RNG.random(N) < 0.5),
    "runs": lambda: pa.array(np.repeat(RNG.integers(0, 2**30, N // 300 + 1).astype(np.int32), 300)[:N]),
    "unique strings": lambda: pa.array([f"unique string number {i} {i * i}" for i in range(N)]),
    "large strings": lambda: pa.array([f"unique string number {i} {i * i}" for i in range(N)], pa.large_string()),
    "short strings": lambda: pa.array([f"{i:x}" for i in range(500)]),
    "noise": lambda: pa.array([RNG.bytes(int(size)) for size in RNG.integers(0, 40, N)], pa.binary()),
    "words": lambda: pa.array([f"word {i % 100} and a tail" for i in range(N)]),
    "few int64": lambda: pa.array(RNG.choice(RNG.integers(-(2**62), 2**62, 50), N)),
    "vectors": lambda: vectors(pa.array(RNG.random(N * 4).astype(np.float32)), 4),
    "vectors with nulls": lambda: vectors(pa.array(RNG.random(N * 3), mask=RNG.random(N * 3) < 0.2), 3),
    "vectors of bits": lambda: vectors(pa.array(RNG.random(N * 3) < 0.5), 3),
    "decimals": lambda: pa.array(RNG.integers(0, 10**9, N)).cast(pa.decimal128(38, 2)),
    "doubles": lambda: pa.array(RNG.random(N)),
    "nullable int64": lambda: pa.array(RNG.integers(0, 1000, N), mask=RNG.random(N) < 0.1),
    "nullable strings": lambda: pa.array([None if i % 7 == 0 else f"unique string {i}" for i in range(N)]),
    "long runs of nulls": lambda: pa.array(RNG.random(N), mask=np.repeat(RNG.random(N // 100 + 1) < 0.5, 100)[:N]),
}


METADATA = {
    "zstd": {"lance-encoding:compression": "zstd"},
    "lz4": {"lance-encoding:compression": "lz4"},
    "split": {"lance-encoding:compression": "zstd", "lance-encoding:bss": "on"},
}
