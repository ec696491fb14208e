"""Files with every layout of a page."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lance_spark.layouts.constant.layout import ConstantLayout
from lance_spark.layouts.full_zip.layout import FullZipLayout
from lance_spark.layouts.mini_block.layout import MiniBlockLayout
from tests.support import arrays

ROWS = 5000


RNG = np.random.default_rng(1)


def _numbers(dtype: Any, high: int) -> pa.Array:
    return pa.array(RNG.integers(0, high, ROWS).astype(dtype))


def _binaries(low: int, high: int, rows: int = ROWS) -> pa.Array:
    return pa.array([None if i % 9 == 4 else RNG.bytes(int(RNG.integers(low, high))) for i in range(rows)])


def _texts() -> pa.Array:
    words = ["lorem", "ipsum", "dolor", "sit", "amet", "ünïcode"]
    return pa.array([None if i % 7 == 3 else " ".join(RNG.choice(words, 8)) + str(i) for i in range(ROWS)])


def _nullable_items() -> pa.Array:
    items = pa.array(RNG.random(ROWS * 4), mask=RNG.random(ROWS * 4) < 0.2)
    return pa.FixedSizeListArray.from_arrays(items, 4, mask=pa.array(RNG.random(ROWS) < 0.2))


ENCODING = "lance-encoding:"


FULL_ZIP = {f"{ENCODING}structural-encoding": "fullzip"}


MINI_BLOCK = {f"{ENCODING}structural-encoding": "miniblock"}


ZSTD = {f"{ENCODING}compression": "zstd"}


LZ4 = {f"{ENCODING}compression": "lz4"}


PLAIN = {f"{ENCODING}compression": "none"}


# name -> (values, metadata, layout at 2.2, words of its description)
CASES: dict[str, tuple[pa.Array, dict[str, str], type, tuple[str, ...]]] = {
    "inline bitpacking": (_numbers(np.int64, 1000), {}, MiniBlockLayout, ("inline_bitpacking",)),
    "flat": (pa.array(RNG.integers(-(1 << 62), 1 << 62, ROWS)), {}, MiniBlockLayout, ("flat",)),
    "flat by wish": (_numbers(np.int32, 100), PLAIN, MiniBlockLayout, ("flat",)),
    "runs": (pa.array(np.repeat(np.arange(50), ROWS // 50)), {}, MiniBlockLayout, ("rle",)),
    "booleans": (pa.array(RNG.random(ROWS) < 0.5), {}, MiniBlockLayout, ("flat",)),
    "byte stream split": (
        pa.array(np.sin(np.arange(ROWS) / 1000)),
        ZSTD | {f"{ENCODING}bss": "on"},
        MiniBlockLayout,
        ("byte_stream_split", "general"),
    ),
    "zstd": (pa.array(RNG.integers(0, 5, ROWS) * (1 << 45)), ZSTD, MiniBlockLayout, ("compression",)),
    "lz4 texts": (_texts(), LZ4, MiniBlockLayout, ("general",)),
    "zstd texts": (_texts(), ZSTD, MiniBlockLayout, ("general",)),
    "fsst": (_texts(), {}, MiniBlockLayout, ("fsst",)),
    "plain texts": (_texts(), PLAIN, MiniBlockLayout, ("variable",)),
    "text dictionary": (pa.array([f"word {i % 40}" for i in range(ROWS)]), {}, MiniBlockLayout, ("dictionary",)),
    "number dictionary": (pa.array(RNG.integers(0, 9, ROWS) << 50), {}, MiniBlockLayout, ("dictionary",)),
    "arrow dictionary": (
        arrays.leaf(pa.dictionary(pa.int16(), pa.string()), ROWS, 0.2, RNG),
        {},
        MiniBlockLayout,
        ("dictionary",),
    ),
    "constant": (pa.array([5] * ROWS), {}, ConstantLayout, ("inline_value",)),
    "constant with nulls": (pa.array([5 if i % 3 else None for i in range(ROWS)]), {}, ConstantLayout, ()),
    "constant text": (pa.array(["same text" if i % 3 else None for i in range(ROWS)]), {}, ConstantLayout, ()),
    "constant in lists": (pa.array([[7] * (i % 4) for i in range(ROWS)]), {}, ConstantLayout, ()),
    "all null": (pa.nulls(ROWS, pa.string()), {}, ConstantLayout, ()),
    "full-zip binaries": (_binaries(300, 900), {}, FullZipLayout, ("variable", "bits_per_offset")),
    "full-zip large binaries": (_binaries(300, 900).cast(pa.large_binary()), {}, FullZipLayout, ("variable",)),
    "full-zip zstd": (_binaries(40_000, 50_000, 30), {}, FullZipLayout, ("general",)),
    "full-zip texts": (_texts(), FULL_ZIP, FullZipLayout, ("bits_per_offset",)),
    "full-zip numbers": (
        pa.array(RNG.random(ROWS), mask=RNG.random(ROWS) < 0.2),
        FULL_ZIP,
        FullZipLayout,
        ("bits_per_value",),
    ),
    "full-zip booleans": (pa.array(RNG.random(ROWS) < 0.5), FULL_ZIP, FullZipLayout, ("bits_per_value: 8",)),
    "full-zip null booleans": (
        arrays.leaf(pa.bool_(), ROWS, 0.3, RNG),
        FULL_ZIP,
        FullZipLayout,
        ("bits_per_value: 8",),
    ),
    "full-zip lists of booleans": (
        arrays.list_of(lambda k: arrays.leaf(pa.bool_(), k, 0.2, RNG), 900, 0.2, RNG),
        FULL_ZIP,
        FullZipLayout,
        ("bits_rep",),
    ),
    "vectors": (arrays.leaf(pa.list_(pa.float32(), 128), ROWS, 0.0, RNG), {}, FullZipLayout, ("fixed_size_list",)),
    "null vectors": (arrays.leaf(pa.list_(pa.float32(), 128), ROWS, 0.3, RNG), {}, FullZipLayout, ()),
    "short vectors": (arrays.leaf(pa.list_(pa.float32(), 4), ROWS, 0.3, RNG), {}, MiniBlockLayout, ()),
    "vectors with null items": (_nullable_items(), {}, MiniBlockLayout, ("has_validity",)),
    "full-zip vectors with null items": (_nullable_items(), FULL_ZIP, FullZipLayout, ("has_validity",)),
    "mini-block vectors": (arrays.leaf(pa.list_(pa.float32(), 128), ROWS, 0.3, RNG), MINI_BLOCK, MiniBlockLayout, ()),
    "lists of vectors": (
        arrays.list_of(lambda k: arrays.leaf(pa.list_(pa.float32(), 96), k, 0.2, RNG), 900, 0.2, RNG),
        {},
        FullZipLayout,
        ("bits_rep",),
    ),
    "lists of binaries": (
        arrays.list_of(lambda k: _binaries(300, 900, k), 900, 0.2, RNG),
        {},
        FullZipLayout,
        ("bits_rep",),
    ),
}
