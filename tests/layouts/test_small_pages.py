"""Small pages are taken a shorter way, and are what the general way writes, byte by byte."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.file_version import FileVersion
from lance_spark.kernels.layouts.small_pages import MAX_VALUES
from lance_spark.layouts import choose
from lance_spark.layouts.choose import PageSettings, encode_pages
from lance_spark.layouts.mini_block.small_pages import small_page
from lance_spark.layouts.page_bytes import PageBytes
from lance_spark.layouts.shred import shred

VERSIONS = (FileVersion.V2_1, FileVersion.V2_2)
TYPES = ("int8", "uint16", "int32", "float32", "int64", "float64")


def columns(rows: int, distinct: int, seed: int) -> list[pa.Array]:
    """Numbers of every width, scaled and sorted ones too, and texts, all with this many distinct values."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, distinct, rows)
    arrays = [pa.array(numbers.astype(kind)) for kind in TYPES]
    arrays += [
        pa.array(numbers * 10**9),
        pa.array(np.sort(numbers)),
        pa.array(np.sort(numbers)).cast(pa.timestamp("us")),
    ]
    texts = [f"text {number}" for number in numbers.tolist()]
    return [*arrays, pa.array(texts), pa.array(texts).cast(pa.binary()), pa.array([text * 9 for text in texts])]


def parts(pages: list[PageBytes]) -> list[tuple[int, object, list[bytes]]]:
    return [(page.num_rows, page.layout, [buffer.to_pybytes() for buffer in page.buffers]) for page in pages]


def generally(array: pa.Array, version: FileVersion, monkeypatch: pytest.MonkeyPatch) -> list[PageBytes]:
    with monkeypatch.context() as patched:
        patched.setattr(choose, "small_page", lambda *_: None)
        return encode_pages(shred(array, ()), PageSettings(version, {}))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("rows", [1, 2, 99, 100, 256, 511, 1000, MAX_VALUES, MAX_VALUES + 1])
def test_bytes_are_equal(rows: int, version: FileVersion, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = 0
    for distinct in (1, 2, 10, rows // 3 + 1, 10**6):
        for whole in columns(rows, distinct, seed=rows):
            for array in (whole, whole.slice(rows // 7)):
                expected = generally(array, version, monkeypatch)
                assert parts(encode_pages(shred(array, ()), PageSettings(version, {}))) == parts(expected)
                taken += small_page(array, 1, version) is not None
    assert taken or rows < 2 or rows > MAX_VALUES


@pytest.mark.parametrize("version", VERSIONS)
def test_numbers_and_repeated_texts_are_taken(version: FileVersion) -> None:
    arrays = [*columns(300, 10**6, seed=1)[:-3], *columns(300, 100, seed=1)[-3:]]
    assert [small_page(array, 1, version) is not None for array in arrays] == [True] * len(arrays)


def test_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal values and 64-bit values that repeat have a better layout in 2.2, but not in 2.1."""
    for array in (pa.array([7] * 200), pa.array(np.arange(200) % 3 * 10**15), pa.array(["a"] * 200)):
        assert small_page(array, 1, FileVersion.V2_1) is not None
        assert small_page(array, 1, FileVersion.V2_2) is None
    for array in (pa.array([True, False]), pa.array([[1]]), pa.array([], pa.int64()), pa.array(range(MAX_VALUES + 1))):
        assert small_page(array, 1, FileVersion.V2_1) is None
    monkeypatch.setattr(choose, "small_page", lambda *_: pytest.fail("the field requests an encoding, or has nulls"))
    encode_pages(shred(pa.array([1, 2]), ()), PageSettings(FileVersion.V2_2, {"lance-encoding:compression": b"none"}))
    encode_pages(shred(pa.array([1, None]), ()), PageSettings(FileVersion.V2_2, {}))


@pytest.mark.parametrize("middle", [-1, 65, 4000, -(2**31), 2**31 - 1])
def test_offsets_that_leave_their_data(middle: int) -> None:
    offsets = np.zeros(201, np.int32)
    offsets[100] = middle
    offsets[101:] = 64
    array = pa.Array.from_buffers(pa.string(), 200, [None, pa.py_buffer(offsets), pa.py_buffer(b"x" * 64)])
    with pytest.raises(InvalidInputError, match="offsets"):
        encode_pages(shred(array, ()), PageSettings(FileVersion.V2_1, {}))


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_both_libraries_read_them(tmp_path: Path, version: str) -> None:
    uri = str(tmp_path / "t")
    for rows in (1, 150, 1000):
        arrays = [array for distinct in (2, 50, 10**6) for array in columns(rows, distinct, seed=rows)]
        table = pa.table({f"c{number}": array for number, array in enumerate(arrays)})
        lance_spark.write(table, uri, mode="overwrite", file_format_version=version)
        assert lance.dataset(uri).to_table() == table
        assert lance_spark.open(uri).to_table() == table
