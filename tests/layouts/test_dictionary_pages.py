"""Pages with a dictionary of their distinct values: when they are written, and that both libraries read them."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.encodings.base import BlockEncoding
from lance_spark.errors import InvalidInputError
from lance_spark.file_version import FileVersion
from lance_spark.layouts.choose import PageSettings, encode_pages
from lance_spark.layouts.mini_block.layout import MiniBlockLayout
from lance_spark.layouts.shred import shred

VERSIONS = (FileVersion.V2_1, FileVersion.V2_2)


def columns(rows: int, distinct: int, seed: int) -> list[pa.Array]:
    """Numbers of every width, scaled and sorted ones too, and texts, all with this many distinct values."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, distinct, rows)
    arrays = [pa.array(numbers.astype(kind)) for kind in ("int8", "uint16", "int32", "float32", "int64", "float64")]
    arrays += [
        pa.array(numbers * 10**9),
        pa.array(np.sort(numbers)),
        pa.array(np.sort(numbers)).cast(pa.timestamp("us")),
    ]
    texts = [f"text {number}" for number in numbers.tolist()]
    return [*arrays, pa.array(texts), pa.array(texts).cast(pa.binary()), pa.array([text * 9 for text in texts])]


def dictionary(array: pa.Array, version: FileVersion) -> tuple[BlockEncoding | None, int]:
    """(its encoding, its items) of the only page of an array."""
    (page,) = encode_pages(shred(array, ()), PageSettings(version, {}))
    assert isinstance(page.layout, MiniBlockLayout)
    return page.layout.dictionary, page.layout.num_dictionary_items


@pytest.mark.parametrize("rows", [100, 1000, 2048, 5000])
@pytest.mark.parametrize("version", VERSIONS)
def test_repeated_texts_get_one(rows: int, version: FileVersion) -> None:
    texts = [f"text {number % 20}" for number in range(rows)]
    for array in (pa.array(texts), pa.array([None, *texts[1:]]), pa.array(texts, pa.large_string())):
        encoding, items = dictionary(array, version)
        assert encoding is not None
        assert items == 20


@pytest.mark.parametrize("version", VERSIONS)
def test_others_get_none(version: FileVersion) -> None:
    unique = [f"text {number}" for number in range(1000)]
    for array in (pa.array(unique), pa.array(["a", "b"] * 49), pa.array([1, 2] * 500, pa.int32())):
        assert dictionary(array, version) == (None, 0)


def test_words_of_64_bits_from_version_2_2_on() -> None:
    array = pa.array(np.arange(200) % 3 * 10**15)
    assert dictionary(array, FileVersion.V2_1) == (None, 0)
    assert dictionary(array, FileVersion.V2_2)[1] == 3


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
