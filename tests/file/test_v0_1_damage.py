"""Damaged files of version 0.1: a `LanceError` or rows, and nothing read outside of a buffer."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark.errors import CorruptFileError, LanceError
from lance_spark.file.open_file import open_data_file
from lance_spark.layouts.base import RowRanges
from lance_spark.storage import open_store
from tests.support.guarded_memory import allocate_guarded, guarded

FLIPS = 400


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    table = pa.table(
        {
            "n": pa.array(range(40), pa.int32()),
            "b": [i % 3 == 0 for i in range(40)],
            "t": [f"text {i}" for i in range(40)],
            "l": [list(range(i % 4)) for i in range(40)],
            "s": [{"x": i, "l": ["a" * (i % 3)]} for i in range(40)],
            "d": pa.array(["red", "green"] * 20).dictionary_encode(),
            "f": pa.array([[1.0, 2.0]] * 40, pa.list_(pa.float32(), 2)),
        }
    )
    folder = tmp_path_factory.mktemp("v0_1") / "t"
    lance.write_dataset(table, str(folder), data_storage_version="legacy", max_rows_per_group=16)
    (path,) = (folder / "data").glob("*.lance")
    return Path(path).read_bytes()


def _read(content: bytes) -> None:
    store = open_store("memory://damage-v0-1")
    store.put("x.lance", content)
    file = open_data_file(store, "x.lance")
    file.read_table().validate(full=True)
    file.read_table(rows=RowRanges(np.array([1, 30]), np.array([3, 31]))).validate(full=True)
    file.bounds(list(file.columns))  # type: ignore[attr-defined]


def test_whole_file_is_read(content: bytes) -> None:
    _read(content)


def test_file_cut_at_every_byte_is_corrupt(content: bytes) -> None:
    for length in range(len(content)):
        with pytest.raises(CorruptFileError):
            _read(content[:length])


def test_file_without_a_piece_of_it_fails_as_lance_error(content: bytes) -> None:
    for start in range(0, len(content) - 16, 37):
        try:
            _read(content[:start] + content[start + 8 :])
        except LanceError:
            continue


@pytest.mark.parametrize("seed", range(3))
def test_changed_bytes_fail_as_lance_error(content: bytes, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pa, "allocate_buffer", allocate_guarded)
    monkeypatch.setattr("lance_spark.storage.memory._copied", guarded)
    rng = np.random.default_rng(seed)
    for _ in range(FLIPS):
        damaged = bytearray(content)
        for position in rng.integers(0, len(content), int(rng.integers(1, 4))):
            damaged[position] ^= int(rng.integers(1, 256))
        try:
            _read(bytes(damaged))
        except LanceError:
            continue
