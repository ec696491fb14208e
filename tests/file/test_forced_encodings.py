"""Encodings that field metadata request: they are in the pages (as `inspect` lists them), and all readers agree."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.cli.inspect import describe
from lance_spark.cli.opening import open_target
from lance_spark.errors import InvalidInputError
from tests.support.equality import assert_tables_equal

ROWS = 5000
RNG = np.random.default_rng(5)
PREFIX = "lance-encoding:"
RUNS = np.repeat(RNG.integers(0, 1 << 30, ROWS // 10), 10)
WIDE = RNG.integers(-(1 << 62), 1 << 62, ROWS)
SMOOTH = np.linspace(0, 1, ROWS)
TEXT = [None if i % 7 == 3 else f"https://example.com/item/{i}" for i in range(ROWS)]
LONG = [None if i % 7 == 3 else f"https://example.com/item/{i} " * 20 for i in range(ROWS)]
REPEATED = [f"a longer value with the number {i % 1500}" for i in RNG.integers(0, 1500, ROWS)]


def nulls(values: np.ndarray, dtype: pa.DataType) -> pa.Array:
    return pa.array(values, mask=RNG.random(ROWS) < 0.2).cast(dtype)


def lists(items: pa.Array) -> pa.Array:
    offsets = np.concatenate([[0], np.sort(RNG.integers(0, ROWS, 998)), [ROWS]])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items)


NUMBERS = {
    str(dtype): pa.array(RNG.integers(0, 100, ROWS)).cast(dtype)
    for dtype in (pa.int8(), pa.uint16(), pa.int32(), pa.int64())
}
TEXTS = {
    str(dtype): pa.array(TEXT).cast(dtype) for dtype in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
}
FLOATS = {str(dtype): pa.array(SMOOTH).cast(dtype) for dtype in (pa.float32(), pa.float64())}

# name of the request -> (metadata, expected encoding, None if it must not occur, columns by type)
Case = tuple[dict[str, str], tuple[str, ...], tuple[str, ...], dict[str, pa.Array]]
CASES: dict[str, Case] = {
    "no compression": ({"compression": "none", "dict-size-ratio": "0.01"}, ("flat",), ("inline_bitpacking",), NUMBERS),
    "bit-packing": ({"dict-size-ratio": "0.01"}, ("inline_bitpacking",), (), NUMBERS),
    "rle": (
        {"rle-threshold": "1", "dict-size-ratio": "0.01"},
        ("rle",),
        (),
        NUMBERS | {"timestamp": pa.array(RUNS, pa.timestamp("us"))},
    ),
    "rle in lists": ({"rle-threshold": "0.5"}, ("rle",), (), {"list": lists(pa.array(RUNS % 100, pa.int32()))}),
    "rle with nulls": ({"rle-threshold": "1"}, ("rle",), (), {"int": nulls(RUNS % 100, pa.int32())}),
    "no rle": ({"rle-threshold": "0"}, ("inline_bitpacking",), ("rle",), {"int32": pa.array(RUNS % 100, pa.int32())}),
    "lz4": ({"compression": "lz4"}, ("general",), (), TEXTS | {"list": lists(pa.array(LONG))}),
    "zstd": ({"compression": "zstd"}, ("general",), (), TEXTS | FLOATS),
    "zstd level": ({"compression": "zstd", "compression-level": "9"}, ("general",), (), TEXTS),
    "lz4 request per value": (
        {"compression": "lz4", "structural-encoding": "fullzip"},
        ("full_zip_layout", "general"),
        (),
        {"nulls": pa.array(LONG), "empty": pa.array(["" if text is None else text for text in LONG])},
    ),
    "zstd per value": (
        {"compression": "zstd", "structural-encoding": "fullzip"},
        ("full_zip_layout", "general"),
        (),
        {"text": pa.array(LONG), "binary": pa.array(LONG).cast(pa.large_binary())},
    ),
    "byte stream split": ({"compression": "zstd", "bss": "on"}, ("byte_stream_split",), (), FLOATS),
    "no byte stream split": ({"compression": "zstd", "bss": "off"}, ("general",), ("byte_stream_split",), FLOATS),
    "fsst": ({"compression": "fsst"}, ("fsst",), ("general",), TEXTS),
    "fsst per value": (
        {"compression": "fsst", "structural-encoding": "fullzip"},
        ("full_zip_layout", "fsst"),
        (),
        TEXTS,
    ),
    "plain text": ({"compression": "none"}, ("variable",), ("fsst", "general"), TEXTS),
    "full-zip": (
        {"structural-encoding": "fullzip"},
        ("full_zip_layout",),
        ("mini_block_layout",),
        {"int64": pa.array(WIDE), "repeated text": pa.array(REPEATED), "list": lists(pa.array(WIDE))},
    ),
    "mini-block": (
        {"structural-encoding": "miniblock", "compression": "none"},
        ("mini_block_layout",),
        ("full_zip_layout",),
        {"text": pa.array(LONG), "vectors": pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(64 * 100) + 1), 64)},
    ),
    "dictionary": ({"dict-divisor": "2", "dict-size-ratio": "1"}, ("dictionary",), (), {"text": pa.array(REPEATED)}),
    "no dictionary by divisor": ({"dict-divisor": "100"}, (), ("dictionary",), {"text": pa.array(REPEATED)}),
    "no dictionary by size": ({"dict-size-ratio": "0.01"}, (), ("dictionary",), {"text": pa.array(REPEATED)}),
    "plain dictionary": (
        {"dict-values-compression": "none", "dict-size-ratio": "1"},
        ("dictionary",),
        ("general",),
        {"text": pa.array(REPEATED)},
    ),
    "small chunks": ({"minichunk-size": "512"}, ("mini_block_layout",), (), TEXTS | NUMBERS),
    "packed struct": (
        {"packed": "true"},
        ("packed_struct",),
        (),
        {"fixed": pa.array([{"a": i, "b": i / 2} for i in range(ROWS)])},
    ),
}
V2_2_CASES: dict[str, Case] = {
    "zstd dictionary": (
        {"dict-values-compression": "zstd", "dict-values-compression-level": "5", "dict-size-ratio": "1"},
        ("dictionary", "general"),
        (),
        {"text": pa.array(REPEATED)},
    ),
    "variable packed struct": (
        {"packed": "true"},
        ("full_zip_layout", "variable_packed_struct"),
        (),
        {
            "text": pa.array([{"a": i, "s": f"text {i}"} for i in range(ROWS)]),
            "vector": pa.array(
                [{"a": i, "v": [1.0, float(i)]} for i in range(ROWS)],
                pa.struct([("a", pa.int64()), ("v", pa.list_(pa.float32(), 2))]),
            ),
        },
    ),
    "constant": ({}, ("constant_layout",), (), {"int": pa.array([7] * ROWS), "text": pa.array(["x"] * ROWS)}),
    "fixed-size list of structs": (
        {},
        ("mini_block_layout",),
        (),
        {
            "pairs": pa.array(
                [[{"a": i, "b": str(i)}] * 2 for i in range(ROWS)],
                pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]), 2),
            )
        },
    ),
}
ALL = [(name, "2.1") for name in CASES] + [(name, "2.2") for name in CASES | V2_2_CASES]


def with_metadata(dtype: pa.DataType, metadata: dict[str, str]) -> pa.Field:
    """A field whose leaf has the metadata."""
    if pa.types.is_list(dtype):
        return pa.field("c", pa.list_(with_metadata(dtype.value_type, metadata).with_name("item")))
    return pa.field("c", dtype, metadata={PREFIX + key: value for key, value in metadata.items()})


def encodings(uri: str) -> set[str]:
    document = describe(open_target(uri), fragments=True, pages=True)
    files = [file for fragment in document["fragments"] for file in fragment["files"]]
    return {
        name for file in files for column in file["columns"] for page in column["pages"] for name in page["encodings"]
    }


@pytest.mark.parametrize(("name", "version"), ALL)
def test_requested_encoding_is_used(tmp_path: Path, name: str, version: str) -> None:
    metadata, expected, unexpected, columns = (CASES | V2_2_CASES)[name]
    for number, (kind, values) in enumerate(columns.items()):
        uri = str(tmp_path / str(number))
        table = pa.table([values], schema=pa.schema([with_metadata(values.type, metadata)]))

        lance_spark.write(table, uri, file_format_version=version)

        found = encodings(uri)
        assert set(expected) <= found, (kind, found)
        assert not found.intersection(unexpected), (kind, found)
        assert_tables_equal(lance.dataset(uri).to_table(), table)
        assert_tables_equal(lance_spark.open(uri).to_table(), table)
        rows = [0, 17, len(values) - 1]
        assert_tables_equal(lance.dataset(uri).take(rows), table.take(rows))


@pytest.mark.parametrize(
    ("key", "value", "advice"),
    [
        ("compression", "gzip", "use one of none, lz4, zstd, fsst"),
        ("compression-level", "high", "use a number"),
        ("compression-level", "23", "use -131072 to 22"),
        ("bss", "maybe", "use one of auto, off, on"),
        ("structural-encoding", "zip", "use one of miniblock, fullzip"),
        ("rle-threshold", "2", "use 0.0 to 1.0"),
        ("rle-threshold", "nan", "use 0.0 to 1.0"),
        ("dict-divisor", "0", "use 1 to 2147483648"),
        ("dict-size-ratio", "0", "use more than 0, up to 1"),
        ("dict-values-compression", "fsst", "use one of lz4, zstd, none"),
        ("minichunk-size", "-5", "use 1 to 2147483648"),
    ],
)
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_wrong_request_is_refused_before_anything_is_written(
    tmp_path: Path, version: str, key: str, value: str, advice: str
) -> None:
    table = pa.table([pa.array([1])], schema=pa.schema([with_metadata(pa.int64(), {key: value})]))
    with pytest.raises(InvalidInputError, match=f"field 'c': lance-encoding:{key} is .*{value}.*; {advice}"):
        lance_spark.write(table, str(tmp_path / "t"), file_format_version=version)
    assert list(tmp_path.rglob("*.lance")) == []
