"""Which layout and encoding a page gets, seen through the reference library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.layouts.leaf.values import leaf_block
from lance_spark.layouts.single_value import single_value
from tests.support.written_files import assert_file_holds, layouts, write_file

RNG = np.random.default_rng(0)
ROWS = 20_000
INTS = pa.list_(pa.int32())


def described(folder: Path, array: pa.Array, version: str = "2.2", **metadata: str) -> tuple[str, str]:
    """(layout, text of the page) of a column of one page, which both readers read."""
    field = pa.field("c", array.type, metadata={f"lance-encoding:{key}": value for key, value in metadata.items()})
    table = pa.table([array], schema=pa.schema([field]))
    reference = assert_file_holds(write_file(folder, table, version)[0], table)
    ((page,),) = (column.pages for column in reference.metadata().columns)
    return layouts(reference)[0][0], "".join(str(page.encoding).split())


WORDS = pa.array([f"word {i}" for i in RNG.integers(0, 500, ROWS)])
KEYS = RNG.integers(-(2**62), 2**62, 300)[RNG.integers(0, 300, ROWS)]
DICTIONARIES = {
    "strings": (WORDS, {"2.1", "2.2"}),
    "large binary": (WORDS.cast(pa.large_binary()), {"2.1", "2.2"}),
    "strings with nulls": (pa.array(WORDS.to_pylist(), mask=RNG.random(ROWS) < 0.3), {"2.1", "2.2"}),
    "int64": (pa.array(KEYS), {"2.2"}),
    "float64": (pa.array(KEYS).view(pa.float64()), {"2.2"}),
    "timestamp": (pa.array(np.abs(KEYS)).view(pa.timestamp("us")), {"2.2"}),
    "decimal128": (pa.array(KEYS).cast(pa.decimal128(38, 0)), {"2.1", "2.2"}),
    "int32": (pa.array(KEYS.astype(np.int32)), set()),
    "few values of few bits": (pa.array(KEYS % 256), set()),
}


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("name", DICTIONARIES)
def test_dictionary(tmp_path: Path, name: str, version: str) -> None:
    array, versions = DICTIONARIES[name]
    layout, page = described(tmp_path, array, version)
    assert layout == "MiniBlock"
    assert ("dictionary:Some(" in page) == (version in versions)


def test_no_dictionary_of_distinct_values(tmp_path: Path) -> None:
    assert "dictionary:None" in described(tmp_path, pa.array([f"word {i}" for i in range(ROWS)]))[1]
    assert "dictionary:None" in described(tmp_path, pa.array(RNG.integers(0, 2**62, ROWS)))[1]


def test_a_dictionary_keeps_the_bits_of_floats(tmp_path: Path) -> None:
    bits = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000002, 0x8000000000000000, 0], np.uint64)
    array = pa.array(bits[RNG.integers(0, 5, ROWS)].view(np.float64))
    assert "dictionary:Some(" in described(tmp_path, array)[1]


def test_an_arrow_dictionary_far_larger_than_its_page_is_pruned(tmp_path: Path) -> None:
    items = pa.array([f"{i:050d}" for i in range(50_000)])
    table = pa.table({"c": pa.DictionaryArray.from_arrays(pa.array([1, 40_000, None, 1], pa.int32()), items)})
    path, written = write_file(tmp_path, table)
    assert_file_holds(path, table)
    assert written.size_bytes < 4000


CONSTANTS = {
    "int": pa.array([7] * 3000),
    "negative zero": pa.array([-0.0] * 3000),
    "not a number": pa.array([float("nan")] * 3000),
    "bool": pa.array([True] * 3000),
    "string": pa.array(["same"] * 3000),
    "empty string": pa.array([""] * 3000),
    "large binary": pa.array([b"same"] * 3000, pa.large_binary()),
    "inline binary": pa.array([b"x" * 32] * 3000, pa.binary(32)),
    "wide binary": pa.array([b"x" * 400] * 3000, pa.binary(400)),
    "decimal256": pa.array([5] * 3000, pa.decimal256(60, 0)),
    "with nulls": pa.array([None, 7] * 1500),
    "list": pa.array([["k", "k"], [], None] * 1000),
    "struct": pa.array([{"a": 7}, None] * 1500),
    "one row": pa.array([5]),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constant(tmp_path: Path, name: str) -> None:
    assert described(tmp_path, CONSTANTS[name])[0] == "Constant"
    assert described(tmp_path, CONSTANTS[name], "2.1")[0] in ("MiniBlock", "FullZip")


@pytest.mark.parametrize(
    "array",
    [
        pa.array([0.0, -0.0] * 1000),
        pa.array(["a"] * 2000 + ["b"]),
        pa.array([1] * 2000 + [2]),
        pa.array([True] * 2000 + [False]),
        pa.array(["", "x"] * 20),
        pa.array([[1.0, 2.0]] * 2000, pa.list_(pa.float32(), 2)),
    ],
    ids=["signs of zero", "strings", "ints", "bools", "empty and not", "vectors"],
)
def test_not_constant(tmp_path: Path, array: pa.Array) -> None:
    assert described(tmp_path, array)[0] == "MiniBlock"


@pytest.mark.parametrize("count", [2, 7, 8, 9, 16, 17, 65])
def test_one_bit_of_another_value_is_found(count: int) -> None:
    for value in (False, True):
        bits = np.full(count, value)
        array = pa.array(bits)
        assert single_value(array, leaf_block(array)) is not None
        for place in range(count):
            bits[place] = not value
            array = pa.array(bits)
            assert single_value(array, leaf_block(array)) is None
            bits[place] = value


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("dtype", [pa.int32(), INTS, pa.struct([("a", INTS)]), pa.null()], ids=str)
def test_only_nulls(tmp_path: Path, dtype: pa.DataType, version: str) -> None:
    assert described(tmp_path, pa.nulls(5000, dtype), version)[0] == "Constant"


def strings(length: int, num: int = 300) -> pa.Array:
    return pa.array([RNG.bytes(length // 2).hex() for _ in range(num)])


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_width_decides_between_mini_blocks_and_full_zip(tmp_path: Path, version: str) -> None:
    vectors = RNG.standard_normal((300, 64)).astype(np.float32)
    wide = pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), 64)
    narrow = pa.FixedSizeListArray.from_arrays(vectors[:, :32].reshape(-1), 32)
    assert described(tmp_path, wide, version)[0] == "FullZip"
    assert described(tmp_path, narrow, version)[0] == "MiniBlock"
    assert described(tmp_path, strings(400), version)[0] == "FullZip"
    assert described(tmp_path, strings(100), version)[0] == "MiniBlock"
    assert described(tmp_path, strings(100), version, **{"structural-encoding": "fullzip"})[0] == "FullZip"
    assert described(tmp_path, strings(400), version, **{"structural-encoding": "miniblock"})[0] == "MiniBlock"


def test_vectors_without_nulls_are_stored_as_they_are(tmp_path: Path) -> None:
    vectors = RNG.standard_normal((1000, 768)).astype(np.float32)
    table = pa.table({"v": pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), 768)})
    path, _ = write_file(tmp_path, table)
    ((buffer,),) = (page.buffers for page in assert_file_holds(path, table).metadata().columns[0].pages)
    assert path.read_bytes()[buffer.position : buffer.position + buffer.size] == vectors.tobytes()


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_a_few_long_strings_among_short_ones(tmp_path: Path, version: str) -> None:
    mixed = [RNG.bytes(40_000).hex() if i % 1000 == 5 else f"value {i}" for i in range(5000)]
    described(tmp_path, pa.array(mixed), version)


def every(distance: int, num: int, empty: list[None] | None) -> pa.Array:
    """Lists of one value, each after `distance - 1` empty ones."""
    return pa.array([[i] if i % distance == distance - 1 else empty for i in range(num)], INTS)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("empty", [[], None], ids=["empty", "null"])
def test_long_runs_of_empty_lists_are_pages_of_their_own(
    tmp_path: Path, version: str, empty: list[None] | None
) -> None:
    table = pa.table({"c": every(70_000, 150_000, empty)})
    reference = assert_file_holds(write_file(tmp_path, table, version)[0], table)
    assert len(layouts(reference)[0]) == 5


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("distance", [20, 300, 3000, 20_000])
def test_sparse_lists(tmp_path: Path, version: str, distance: int) -> None:
    table = pa.table({"c": every(distance, 100_000, [])})
    assert_file_holds(write_file(tmp_path, table, version)[0], table)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_long_runs_of_empty_lists_in_one_row_are_zipped(tmp_path: Path, version: str) -> None:
    rows = [[[]] * 70_000 + [[1, 2]] + [[]] * 40_000, [[3]], [], None]
    assert described(tmp_path, pa.array(rows, pa.list_(INTS)), version)[0] == "FullZip"
    with pytest.raises(UnsupportedFeatureError, match="empty lists"):
        described(tmp_path, pa.array([[[]] * 70_000 + [[True, False]]]), version)


def test_a_row_over_many_chunks(tmp_path: Path) -> None:
    array = pa.array([list(range(50_000)), [], [1], None, list(range(3000))], pa.list_(pa.int64()))
    assert described(tmp_path, array)[0] == "MiniBlock"
