from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.encodings.blocks import ChunkLimits, Chunks
from lance_spark.encodings.variable import Variable
from lance_spark.errors import CorruptFileError
from tests.support.codec_contract import EDGE_LENGTHS, LIMITS, Case, CodecContract, meaning, variable_width


def strings(length: int, longest: int = 12) -> list[bytes]:
    rng = np.random.default_rng(length)
    return [rng.bytes(size) for size in rng.integers(0, longest, length).tolist()]


class TestVariable(CodecContract):
    @staticmethod
    def cases() -> Iterator[Case]:
        for length in EDGE_LENGTHS:
            for bits in (32, 64):
                values = variable_width(strings(length), bits)
                name = f"{length} of {bits} bits"
                for limits in LIMITS:
                    yield Case(f"mini-blocks {name}", values, Variable.encode_mini_blocks(values, limits))
                yield Case(f"block {name}", values, Variable.encode_block(values))
                yield Case(f"values {name}", values, Variable.encode_values(values))
        for name, each in (("empty", b""), ("long", b"x" * 9000)):
            values = variable_width([each] * 100)
            yield Case(name, values, Variable.encode_mini_blocks(values, LIMITS[0]))


def test_chunk_of_the_format_example() -> None:
    """The chunk of "x", null, "yz" in a file that the reference library reads."""
    values = variable_width([b"x", b"", b"yz"])
    encoded = Variable.encode_mini_blocks(values, ChunkLimits())
    assert encoded.buffers[0].data.to_pybytes() == bytes.fromhex("10000000 11000000 11000000 13000000 78797a48")


def test_block_has_width_and_place_of_the_bytes() -> None:
    encoded = Variable.encode_block(variable_width([b"ab", b"c"]))
    assert encoded.data.to_pybytes() == struct.pack("<5I", 32, 20, 0, 2, 3) + b"abc"
    encoded = Variable.encode_block(variable_width([b"ab", b"c"], 64))
    assert encoded.data.to_pybytes() == struct.pack("<5Q", 64, 40, 0, 2, 3) + b"abc"


@pytest.mark.parametrize(("bits", "word"), [(32, "I"), (64, "Q")])
def test_block_of_early_writers(bits: int, word: str) -> None:
    """One byte of bits, the number of values, the place of the bytes; then the offsets."""
    size = struct.calcsize(f"<B5{word}")
    data = struct.pack(f"<B5{word}", bits, 2, size, 0, 2, 3) + b"abc"
    decoded = Variable(bits).decode_blocks(Chunks.single(pa.py_buffer(data), 2))
    assert meaning(decoded) == [b"ab", b"c"]


@pytest.mark.parametrize(
    "offsets",
    [
        pytest.param((16, 18, 17, 19), id="falling"),
        pytest.param((16, 17, 18, 20), id="past the end"),
        pytest.param((20, 16, 16, 16), id="first after last"),
        pytest.param((16, 17, 0xFFFFFFFF, 19), id="huge in between"),
    ],
)
def test_bad_offsets_are_corrupt(offsets: tuple[int, ...]) -> None:
    data = struct.pack("<4I", *offsets) + b"abc"
    with pytest.raises(CorruptFileError):
        Variable(32).decode_mini_blocks([Chunks.single(pa.py_buffer(data), 3)])


def test_offsets_of_a_page_start_at_zero_and_share_one_run() -> None:
    values = [f"value {index}".encode() for index in range(3000)]
    encoded = Variable.encode_mini_blocks(variable_width(values), ChunkLimits(max_bytes=512))
    assert len(encoded.num_values) > 50
    decoded = encoded.encoding.decode_mini_blocks(encoded.buffers)
    array = pa.Array.from_buffers(pa.binary(), 3000, [None, decoded.offsets, decoded.data])
    array.validate(full=True)
    assert array.to_pylist() == values
