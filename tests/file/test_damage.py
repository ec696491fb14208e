"""Damaged files of every layout: a `LanceError` or rows, and nothing read or written outside of a buffer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileWriter

from lance_spark.errors import CorruptFileError, LanceError
from lance_spark.file.open_file import open_data_file
from lance_spark.storage import open_store
from tests.file.reference_files import some_ranges
from tests.support import arrays
from tests.support.file.forced_layouts import CASES
from tests.support.guarded_memory import allocate_guarded, guarded

FLIPS = 40


def _tables() -> Iterator[tuple[str, pa.Table]]:
    yield "leaves", arrays.leaves_table(60, 0.3)
    yield "nested", arrays.nested_table(60, 0.3)
    for name in (
        "inline bitpacking",
        "runs",
        "lz4 texts",
        "zstd texts",
        "fsst",
        "text dictionary",
        "number dictionary",
    ):
        yield name, pa.table({"x": CASES[name][0].slice(0, 1500)})
    for name in ("lists of vectors", "lists of binaries", "full-zip binaries", "vectors with null items"):
        yield name, pa.table({"x": CASES[name][0].slice(0, 60)})
    rng = np.random.default_rng(2)
    yield (
        "pages of lists",
        pa.table({"x": arrays.list_of(lambda k: arrays.leaf(pa.int8(), k, 0, rng), 80_000, 0.1, rng)}),
    )
    yield "many chunks of lists", arrays.nested_table(4000, 0.2, maps=False).select(["list_int", "list_struct"])


TABLES = dict(_tables())


def _content(name: str, folder: Path) -> bytes:
    table = TABLES[name]
    path = folder / "whole.lance"
    metadata = CASES[name][1] if name in CASES else {}
    schema = pa.schema([field.with_metadata(metadata) if name in CASES else field for field in table.schema])
    with LanceFileWriter(str(path), schema) as writer:
        writer.write_batch(table.cast(schema))
    return path.read_bytes()


def _read(content: bytes, name: str) -> None:
    store = open_store(f"memory://damage-{name.replace(' ', '-')}")
    store.put("x.lance", content)
    file = open_data_file(store, "x.lance")
    file.read_table().validate(full=True)
    for rows in some_ranges(file.num_rows)[1:]:
        file.read_table(rows=rows).validate(full=True)


@pytest.mark.parametrize("name", list(TABLES))
def test_bytes_changed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = _content(name, tmp_path)
    _read(content, name)
    monkeypatch.setattr(pa, "allocate_buffer", allocate_guarded)
    monkeypatch.setattr("lance_spark.storage.memory._copied", guarded)
    rng = np.random.default_rng(len(name))
    for _ in range(FLIPS if len(content) < 100_000 else FLIPS // 4):
        damaged = bytearray(content)
        for position in rng.integers(0, len(content), int(rng.integers(1, 4))):
            damaged[position] ^= int(rng.integers(1, 256))
        try:
            _read(bytes(damaged), name)
        except LanceError:
            continue


@pytest.mark.parametrize("name", ["leaves", "nested"])
def test_metadata_changed(name: str, tmp_path: Path) -> None:
    content = _content(name, tmp_path)
    start = content.rindex(b"LANC") - 36
    columns = int.from_bytes(content[start : start + 8], "little")
    rng = np.random.default_rng(1)
    for _ in range(3 * FLIPS):
        damaged = bytearray(content)
        for position in rng.integers(columns, len(content), int(rng.integers(1, 4))):
            damaged[position] ^= int(rng.integers(1, 256))
        try:
            _read(bytes(damaged), name)
        except LanceError:
            continue


def test_truncated(tmp_path: Path) -> None:
    content = _content("nested", tmp_path)
    for length in range(0, len(content), 97):
        with pytest.raises(LanceError):
            _read(content[:length], "nested")


def test_errors_name_the_place(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array(range(10), pa.int64()), "s": [f"text {i}" for i in range(10)]})
    path = tmp_path / "x.lance"
    with LanceFileWriter(str(path), table.schema) as writer:
        writer.write_batch(table)
    content = path.read_bytes().replace(b"text 7", b"tex\xff 7")
    store = open_store("memory://place")
    store.put("x.lance", content)
    with pytest.raises(CorruptFileError) as caught:
        open_data_file(store, "x.lance").read_table()
    assert (caught.value.path, caught.value.column, caught.value.page) == ("x.lance", 1, 0)
