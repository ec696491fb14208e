"""Damaged files give a `LanceError` or, where the format has no checksum, rows: no other exception, no crash.

`make soak` changes many more bytes (LANCE_FLIPS).
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from tests.support import arrays

CASES = ("2.0", "2.1", "2.2")
FLIPS = int(os.environ.get("LANCE_FLIPS", "100"))
SEED = int(os.environ.get("LANCE_SEED", "7"))


def small_table(version: str) -> pa.Table:
    leaves = arrays.leaves_table(40, 0.3)
    nested = arrays.nested_table(40, 0.3, maps=version == "2.2", null_structs=version != "2.0")
    for name in nested.column_names:
        leaves = leaves.append_column(name, nested[name])
    return leaves.append_column("key", pa.array(range(40)))


@pytest.fixture(scope="module", params=CASES)
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "t"
    lance.write_dataset(small_table(request.param), str(path), data_storage_version=request.param)
    lance.dataset(str(path)).delete("key < 5")
    return path


def files(table: Path, folder: str) -> list[Path]:
    return sorted(path for path in (table / folder).iterdir() if path.suffix in {".lance", ".manifest", ".arrow"})


def read(uri: Path) -> None:
    with contextlib.suppress(lance_spark.LanceError):
        lance_spark.open(str(uri)).to_table().validate(full=True)


def damaged(table: Path, tmp_path: Path, folder: str, contents: Iterator[bytes]) -> Iterator[Path]:
    copy = tmp_path / "copy"
    shutil.copytree(table, copy)
    victim = files(copy, folder)[0]
    for content in contents:
        victim.unlink()  # A new file each time: the old one may still be mapped into memory.
        victim.write_bytes(content)
        yield copy


@pytest.mark.parametrize("folder", ["data", "_versions", "_deletions"])
def test_truncated_anywhere(table: Path, tmp_path: Path, folder: str) -> None:
    whole = files(table, folder)[0].read_bytes()
    lengths = sorted({*range(0, len(whole), max(1, len(whole) // 150)), *range(max(0, len(whole) - 60), len(whole))})
    for copy in damaged(table, tmp_path, folder, (whole[:length] for length in lengths)):
        with pytest.raises(lance_spark.LanceError):
            lance_spark.open(str(copy)).to_table()


@pytest.mark.parametrize("folder", ["data", "_versions", "_deletions"])
def test_bytes_flipped_anywhere(table: Path, tmp_path: Path, folder: str) -> None:
    whole = files(table, folder)[0].read_bytes()
    rng = np.random.default_rng(SEED)

    def flips() -> Iterator[bytes]:
        for _ in range(FLIPS):
            content = bytearray(whole)
            for position in rng.integers(0, len(whole), int(rng.integers(1, 4))):
                content[position] ^= int(rng.integers(1, 256))
            yield bytes(content)

    for copy in damaged(table, tmp_path, folder, flips()):
        read(copy)


def test_numbers_in_the_footer_are_not_trusted(table: Path, tmp_path: Path) -> None:
    whole = files(table, "data")[0].read_bytes()

    def extremes() -> Iterator[bytes]:
        for position in range(len(whole) - 40, len(whole) - 8, 4):
            for word in (b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x00\x00\x00\x80"):
                yield whole[:position] + word + whole[position + 4 :]

    for copy in damaged(table, tmp_path, "data", extremes()):
        read(copy)
