"""Which encodings are chosen, and that the reference library reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

from lance_spark.encodings.blocks import ChunkLimits, FixedSizeListBlock, FixedWidthBlock, PackedStructBlock
from lance_spark.encodings.byte_stream_split import ByteStreamSplit
from lance_spark.encodings.choose import choose_block, choose_blocks, choose_mini_block, choose_values
from lance_spark.encodings.fixed_size_list import FixedSizeList
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.fsst import Fsst
from lance_spark.encodings.general import General
from lance_spark.encodings.inline_bitpacking import InlineBitpacking
from lance_spark.encodings.out_of_line_bitpacking import OutOfLineBitpacking
from lance_spark.encodings.packed_struct import PackedStruct
from lance_spark.encodings.rle import Rle
from lance_spark.encodings.variable import Variable
from lance_spark.encodings.variable_packed_struct import VariablePackedStruct
from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.file.writer import FileWriter
from lance_spark.file_version import FileVersion
from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.storage import open_store
from tests.support.codec_contract import decode, fixed_width, meaning, variable_width
from tests.support.encodings.reference_pages import ARRAYS, METADATA

RNG = np.random.default_rng(3)
V2_1, V2_2 = FileVersion.V2_1, FileVersion.V2_2
NUMBERS = fixed_width(RNG.integers(0, 1000, 5000))
WIDE = fixed_width(RNG.integers(-(1 << 62), 1 << 62, 5000))
RUNS = fixed_width(np.repeat(RNG.integers(-(1 << 62), 1 << 62, 20), 250))
TEXT = variable_width([b"https://example.com/item/%d" % number for number in range(5000)])
NOISE = variable_width([RNG.bytes(12) for _ in range(5000)])


@pytest.mark.parametrize(
    ("block", "codec"),
    [
        pytest.param(NUMBERS, InlineBitpacking, id="few bits"),
        pytest.param(WIDE, Flat, id="all bits"),
        pytest.param(RUNS, Rle, id="runs"),
        pytest.param(fixed_width(RNG.random(5000) < 0.5), Flat, id="booleans"),
        pytest.param(FixedWidthBlock(pa.py_buffer(bytes(16000)), 128, 1000), Flat, id="decimals"),
        pytest.param(TEXT, Fsst, id="text"),
        pytest.param(NOISE, Variable, id="noise"),
        pytest.param(variable_width([b"https://example.com/"] * 100), Variable, id="little text"),
        pytest.param(FixedSizeListBlock(NUMBERS, 4, None, 1250), FixedSizeList, id="lists"),
        pytest.param(PackedStructBlock((NUMBERS, WIDE), 5000), PackedStruct, id="packed struct"),
        pytest.param(fixed_width(np.zeros(0, np.int32)), Flat, id="nothing"),
    ],
)
@pytest.mark.parametrize("version", [V2_1, V2_2])
def test_mini_blocks_of_fewest_bytes(block: FixedWidthBlock, codec: type, version: FileVersion) -> None:
    encoded = choose_mini_block(block, version)
    assert type(encoded.encoding) is codec
    assert meaning(decode(encoded)) == meaning(block)


def test_bit_packing_needs_chunks_of_1024_values() -> None:
    encoded = choose_mini_block(NUMBERS, V2_2, limits=ChunkLimits(max_values=512))
    assert type(encoded.encoding) is Flat
    assert int(encoded.num_values.max()) == 512


@pytest.mark.parametrize(
    ("name", "block", "codecs"),
    [
        ("none", NUMBERS, [Flat]),
        ("none", TEXT, [Variable]),
        ("fsst", variable_width([b"aaaa"]), [Fsst]),
        ("zstd", TEXT, [General, Variable]),
        ("lz4", TEXT, [General, Variable]),
        ("zstd", WIDE, [Flat]),
    ],
)
def test_metadata_decides(name: str, block: FixedWidthBlock, codecs: list[type]) -> None:
    encoded = choose_mini_block(block, V2_2, {"lance-encoding:compression": name.encode()})
    met = [encoded.encoding]
    while isinstance(met[-1], General):
        met.append(met[-1].values)
    assert [type(codec) for codec in met] == codecs
    assert meaning(decode(encoded)) == meaning(block)


def test_bytes_are_split_on_request() -> None:
    metadata = {"lance-encoding:compression": b"zstd", "lance-encoding:bss": b"on"}
    values = fixed_width(np.cumsum(RNG.random(5000)).astype(np.float32))
    encoded = choose_mini_block(values, V2_2, metadata)
    assert isinstance(encoded.encoding, General)
    assert isinstance(encoded.encoding.values, ByteStreamSplit)


@pytest.mark.parametrize(
    "metadata",
    [
        {"lance-encoding:compression": b"gzip"},
        {"lance-encoding:compression": b"zstd", "lance-encoding:compression-level": b"high"},
    ],
)
def test_wrong_metadata_is_refused(metadata: dict[str, bytes]) -> None:
    with pytest.raises(InvalidInputError, match="lance-encoding"):
        choose_mini_block(NUMBERS, V2_2, metadata)


def test_levels_of_2_1_have_no_runs() -> None:
    levels = fixed_width(np.repeat(np.array([0, 1, 0], np.uint16), 4096))
    counts = np.full(3, 4096, np.int64)
    assert type(choose_blocks(levels, counts, V2_1).encoding) is OutOfLineBitpacking
    assert type(choose_blocks(levels, counts, V2_2).encoding) is Rle


def test_no_chunk_of_levels_outgrows_its_raw_form() -> None:
    alternating = np.arange(32_000) % 2
    constant = np.zeros(32_000 * 20, np.int64)
    levels = fixed_width(np.concatenate([alternating * 0xFFFF, constant]).astype(np.uint16))
    encoded = choose_blocks(levels, np.full(21, 32_000, np.int64), V2_2)
    assert int(encoded.chunks.sizes.max()) <= 64_000


def test_dictionaries_are_compressed_from_2_2_on() -> None:
    assert type(choose_block(TEXT, V2_1).encoding) is Variable
    assert type(choose_block(TEXT, V2_2).encoding) is General
    assert type(choose_block(TEXT, V2_2, {"lance-encoding:dict-values-compression": b"none"}).encoding) is Variable
    assert type(choose_block(NUMBERS, V2_1).encoding) is OutOfLineBitpacking
    assert type(choose_block(WIDE, V2_2).encoding) is Flat


def test_values_of_full_zip_pages() -> None:
    struct = PackedStructBlock((NUMBERS, TEXT), 5000)
    assert type(choose_values(WIDE, V2_2).encoding) is Flat
    assert type(choose_values(TEXT, V2_2).encoding) is Fsst
    assert type(choose_values(NOISE, V2_2, {"lance-encoding:compression": b"lz4"}).encoding) is Variable
    assert type(choose_values(struct, V2_2).encoding) is VariablePackedStruct
    with pytest.raises(UnsupportedFeatureError):
        choose_values(struct, V2_1)


def _write(path: Path, array: pa.Array, version: FileVersion, metadata: dict[str, str] | None) -> None:
    schema = pa.schema([pa.field("x", array.type, metadata=metadata)])
    writer = FileWriter(open_store(str(path.parent)), path.name, from_arrow_schema(schema), version=version)
    writer.write(pa.table([array], schema=schema))
    writer.close()


@pytest.mark.parametrize("version", [V2_1, V2_2])
@pytest.mark.parametrize("name", ARRAYS)
def test_pylance_reads_what_we_choose(tmp_path: Path, name: str, version: FileVersion) -> None:
    _check_with_reference(tmp_path / "x.lance", ARRAYS[name](), version, None)


@pytest.mark.parametrize("metadata", [*METADATA, "none", "fsst"])
@pytest.mark.parametrize("name", ["doubles", "sorted int32", "runs", "unique strings", "nullable strings", "vectors"])
def test_pylance_reads_what_metadata_asks_for(tmp_path: Path, name: str, metadata: str) -> None:
    keys = METADATA.get(metadata, {"lance-encoding:compression": metadata})
    _check_with_reference(tmp_path / "x.lance", ARRAYS[name](), V2_2, keys)


def _check_with_reference(path: Path, array: pa.Array, version: FileVersion, metadata: dict[str, str] | None) -> None:
    _write(path, array, version, metadata)
    reader = LanceFileReader(str(path))
    assert reader.read_all().to_table().column(0).combine_chunks().equals(array)
    rows = [0, 1, len(array) // 2, len(array) - 1]
    assert reader.take_rows(rows).to_table().column(0).combine_chunks().equals(array.take(pa.array(rows)))


def test_chunk_size_on_request() -> None:
    small = choose_mini_block(NOISE, V2_2, {"lance-encoding:minichunk-size": b"512"})
    large = choose_mini_block(NOISE, V2_2, {"lance-encoding:minichunk-size": b"100000000"})
    assert int(small.buffers[0].sizes.max()) <= 512
    assert 8192 < int(large.buffers[0].sizes.max()) <= 32768
    assert meaning(decode(small)) == meaning(decode(large)) == meaning(NOISE)
