"""Every layout and encoding that the reference library can be made to write, and that it was written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.layouts.constant.layout import ConstantLayout
from lance_spark.layouts.full_zip.layout import FullZipLayout
from lance_spark.layouts.mini_block.layout import MiniBlockLayout
from tests.file import knob_files
from tests.file.reference_files import check, layouts, one_column, open_file, pages, write
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


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_forced(tmp_path: Path, version: str, name: str) -> None:
    values, metadata, layout, words = CASES[name]
    expected = one_column(values, metadata)
    file = write(tmp_path / "x.lance", expected, version)
    if version == "2.2":
        found = layouts(file)
        assert {type(page) for page in found} == {layout}
        description = str(found[0].to_proto())
        assert all(word in description for word in words), description
    check(file, expected)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_messages_survive(tmp_path: Path, version: str) -> None:
    """A layout says the same after it was parsed and written again."""
    from lance_spark._proto import encodings_v2_1_pb2 as pb

    for name, (values, metadata, _, _) in CASES.items():
        file = write(tmp_path / f"{name}.lance", one_column(values, metadata), version)
        for page, layout in zip(pages(file), layouts(file), strict=True):
            assert layout.to_proto() == pb.PageLayout.FromString(page.message), name


@pytest.fixture(scope="module", params=["2.1", "2.2"])
def knobs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("knobs")
    subprocess.run(
        [sys.executable, "-m", "tests.file.knob_files", str(folder), request.param],
        env=os.environ | knob_files.KNOBS,
        check=True,
    )
    return folder


@pytest.mark.parametrize("name", list(knob_files.tables()))
def test_environment(knobs: Path, name: str) -> None:
    file = open_file(knobs / f"{name}.lance")
    if name == "pages":
        assert len(pages(file)) > len(file.columns)
    check(file, knob_files.tables()[name])
