"""Few compressed bytes that stand for very many are refused before anything is allocated."""

from __future__ import annotations

import functools

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.encodings.base import BlockEncoding, MiniBlockEncoding, PerValueEncoding
from lance_spark.encodings.blocks import Chunks, VariableWidthBlock
from lance_spark.encodings.buffer_compression import (
    VARIABLE,
    BufferCompression,
    CompressionScheme,
    check_growth,
    max_decompressed_bytes,
)
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.general import General
from lance_spark.encodings.variable import Variable
from lance_spark.errors import CorruptFileError, InvalidInputError
from tests.layouts.v2_0.pages import binary, flat, no_nulls, read, u64

BOMB_BYTES = 400 << 20
FRAMES = ("bare", "bare without size", "sized")


@functools.cache
def bomb(kind: str, size: int = BOMB_BYTES) -> bytes:
    zeros = bytes(1 << 20)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        for _ in range(size >> 20):
            stream.write(zeros)
    frame = sink.getvalue().to_pybytes()
    if kind == "bare":
        # The same blocks behind a header that tells the size: magic, 8 bytes of size, a window of 128 MiB.
        assert frame[4] == 0
        frame = frame[:4] + b"\xc0\x88" + size.to_bytes(8, "little") + frame[6:]
    return size.to_bytes(8, "little") + frame if kind == "sized" else frame


@pytest.fixture(autouse=True)
def allocates_little() -> object:
    pool = pa.default_memory_pool()
    before = max(pool.max_memory(), pool.bytes_allocated() + (100 << 20))
    yield
    assert pool.max_memory() <= before


def test_bombs_decompress_elsewhere() -> None:
    small = {kind: bomb(kind, 4 << 20) for kind in FRAMES}
    assert all(len(data) < 1000 for data in small.values())
    assert pa.decompress(small["bare"], 4 << 20, codec="zstd").to_pybytes() == bytes(4 << 20)


@pytest.mark.parametrize("kind", FRAMES)
def test_zstd_of_2_0_beyond_limit_is_refused(kind: str) -> None:
    ends = u64(BOMB_BYTES)
    with pytest.raises(CorruptFileError, match=VARIABLE):
        read(binary(BOMB_BYTES + 1, scheme="zstd"), [ends, bomb(kind)], 1, "binary")
    with pytest.raises(CorruptFileError, match=VARIABLE):
        read(no_nulls(flat(64, 0, "zstd")), [bomb(kind)], BOMB_BYTES // 8, "int64")


@pytest.mark.parametrize("kind", FRAMES)
def test_zstd_of_2_0_is_decompressed_as_far_as_needed(kind: str) -> None:
    found = read(no_nulls(flat(64, 0, "zstd")), [bomb(kind)], 1000, "int64")
    assert found.to_pylist() == [0] * 1000


def test_lz4_of_2_0_beyond_limit_is_refused() -> None:
    claims = BOMB_BYTES.to_bytes(4, "little") + bytes(BOMB_BYTES // 255 + 1000)
    with pytest.raises(CorruptFileError, match=VARIABLE):
        read(no_nulls(flat(64, 0, "lz4")), [claims], 1000, "int64")


@pytest.mark.parametrize("values", [Variable(32), Flat(64)], ids=["texts", "numbers"])
@pytest.mark.parametrize("kind", ["bare", "sized"])
def test_general_beyond_limit_is_refused(kind: str, values: Variable | Flat) -> None:
    general = General(BufferCompression(CompressionScheme.ZSTD), values)
    chunks = Chunks.single(pa.py_buffer(bomb(kind)), BOMB_BYTES // 8)
    for role in (MiniBlockEncoding, BlockEncoding):
        assert isinstance(general, role)
    with pytest.raises(CorruptFileError, match=VARIABLE):
        general.decode_mini_blocks([chunks])
    with pytest.raises(CorruptFileError, match=VARIABLE):
        general.decode_blocks(chunks)


def test_general_values_beyond_limit_together_are_refused() -> None:
    # Each alone is within the limit.
    frame = bomb("sized", 100 << 20)
    data, count = pa.py_buffer(frame * 4), 4
    offsets = pa.py_buffer((np.arange(count + 1) * len(frame)).astype("<i4"))
    general = General(BufferCompression(CompressionScheme.ZSTD), Variable(32))
    assert isinstance(general, PerValueEncoding)
    with pytest.raises(CorruptFileError, match=VARIABLE):
        general.decode_values(VariableWidthBlock(offsets, data, 32, count))


def test_claims_beyond_what_the_values_need_are_refused() -> None:
    general = General(BufferCompression(CompressionScheme.ZSTD), Flat(64))
    chunks = Chunks.single(pa.py_buffer(bomb("sized", 4 << 20)), 10)
    with pytest.raises(CorruptFileError, match="more bytes than it can"):
        general.decode_blocks(chunks)


def test_limit_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    check_growth(1000, 256 << 20)
    with pytest.raises(CorruptFileError, match=VARIABLE):
        check_growth(1000, (256 << 20) + 1)
    check_growth(100 << 20, 1600 << 20)
    monkeypatch.setenv(VARIABLE, "1000")
    check_growth(100, 1600)
    with pytest.raises(CorruptFileError, match="the limit is 1000"):
        check_growth(100, 1601)
    monkeypatch.setenv(VARIABLE, str(1 << 40))
    check_growth(1000, 1 << 39)


@pytest.mark.parametrize("text", ["1 GB", "-1", "1e9", "9" * 30])
def test_limit_that_is_no_number_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(InvalidInputError, match=VARIABLE):
        max_decompressed_bytes()
