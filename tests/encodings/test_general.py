from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import EncodedBlock, MiniBlockEncoding
from lance_spark.encodings.blocks import Chunks
from lance_spark.encodings.buffer_compression import BufferCompression, CompressionScheme
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.general import General
from lance_spark.encodings.inline_bitpacking import InlineBitpacking
from lance_spark.encodings.registry import parse
from lance_spark.encodings.rle import Rle
from lance_spark.encodings.variable import Variable
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from tests.support.codec_contract import LIMITS, Case, CodecContract, fixed_width, variable_width

LZ4 = BufferCompression(CompressionScheme.LZ4)
ZSTD = BufferCompression(CompressionScheme.ZSTD, 5)


class TestGeneral(CodecContract):
    @staticmethod
    def cases() -> Iterator[Case]:
        rng = np.random.default_rng(6)
        for compression in (LZ4, ZSTD):
            for length in (0, 1, 5, 1024, 4097):
                numbers = fixed_width(np.repeat(rng.integers(0, 100, length), 4)[:length])
                texts = variable_width([b"value %d" % (number % 50) for number in range(length)])
                name = f"{compression.scheme.name} {length}"
                for limits in LIMITS:
                    flat = Flat.encode_mini_blocks(numbers, limits)
                    yield Case(f"flat {name}", numbers, General.encode_mini_blocks(flat, compression))
                    strings = Variable.encode_mini_blocks(texts, limits)
                    yield Case(f"strings {name}", texts, General.encode_mini_blocks(strings, compression))
                if length:
                    packed = InlineBitpacking.encode_mini_blocks(numbers)
                    yield Case(f"packed {name}", numbers, General.encode_mini_blocks(packed, compression))
                    runs = Rle.encode_mini_blocks(numbers, LIMITS[0])
                    yield Case(f"runs {name}", numbers, General.encode_mini_blocks(runs, compression))
                block = EncodedBlock(Flat(64), numbers.data, length)
                yield Case(f"block {name}", numbers, General.encode_block(block, compression))
                strings_block = Variable.encode_block(texts)
                yield Case(f"block of strings {name}", texts, General.encode_block(strings_block, compression))
                values = Variable.encode_values(texts)
                yield Case(f"values {name}", texts, General.encode_values(values, compression))


def test_lz4_has_a_size_of_four_bytes_before_a_raw_block() -> None:
    data = bytes(100) + b"tail"
    framed = LZ4.compress(Chunks.single(pa.py_buffer(data), 104)).data
    assert framed.slice(0, 4).to_pybytes() == (104).to_bytes(4, "little")
    assert pa.Codec("lz4_raw").decompress(framed.slice(4), 104).to_pybytes() == data


def test_zstd_has_a_size_of_eight_bytes_before_a_frame() -> None:
    framed = ZSTD.compress(Chunks.single(pa.py_buffer(bytes(100)), 100)).data
    assert framed.slice(0, 8).to_pybytes() == (100).to_bytes(8, "little")
    assert framed.slice(8, 4).to_pybytes() == b"\x28\xb5\x2f\xfd"


@pytest.mark.parametrize("length", [1, 200, 300, 70_000])
def test_bare_zstd_frames_of_old_files(length: int) -> None:
    data = np.random.default_rng(1).integers(0, 5, length, np.uint8).tobytes()
    frame = pa.Codec("zstd").compress(data)
    decoded = General(ZSTD, Flat(8)).decode_blocks(Chunks.single(frame, length))
    assert decoded.data.slice(0, length).to_pybytes() == data


def _several(parts: list[bytes], contents: list[int]) -> Chunks:
    sizes = np.array([len(part) for part in parts])
    return Chunks(pa.py_buffer(b"".join(parts)), np.cumsum(sizes) - sizes, sizes, np.array(contents))


def _texts_and_frames() -> tuple[list[bytes], list[bytes]]:
    rng = np.random.default_rng(2)
    texts = [rng.integers(97, 105, length, np.uint8).tobytes() for length in (1, 255, 256, 300, 4000, 0, 66_000, 20)]
    return texts, [len(text).to_bytes(8, "little") + pa.Codec("zstd").compress(text, asbytes=True) for text in texts]


def test_many_zstd_frames_are_one_stream() -> None:
    texts, frames = _texts_and_frames()
    # Old files have bare frames; an empty buffer stays empty.
    frames[3], frames[5] = frames[3][8:], b""
    decoded = ZSTD.decompress(_several(frames, [len(text) for text in texts]))
    assert decoded.data.to_pybytes() == b"".join(texts)
    assert decoded.sizes.tolist() == [len(text) for text in texts]


@pytest.mark.parametrize("damage", ["cut", "claim", "swapped claims", "longer", "head", "block"])
def test_a_damaged_zstd_frame_among_others(damage: str) -> None:
    texts, frames = _texts_and_frames()
    if damage == "cut":
        frames[2] = frames[2][:-3]
    elif damage == "claim":
        frames[2] = (255).to_bytes(8, "little") + frames[2][8:]
    elif damage == "swapped claims":
        # The sum is right.
        frames[1], frames[2] = frames[2][:8] + frames[1][8:], frames[1][:8] + frames[2][8:]
    elif damage == "longer":
        frames[2] += frames[1][8:]
    elif damage == "head":
        frames[2] = frames[2][:7]
    else:
        # Block type 3, which is reserved: 8 bytes of the claim and 7 of the frame's header are before it.
        frames[4] = frames[4][:15] + bytes([frames[4][15] | 6]) + frames[4][16:]
    with pytest.raises(CorruptFileError):
        ZSTD.decompress(_several(frames, [len(text) for text in texts]))


@pytest.mark.parametrize("size", range(1, 20))
def test_zstd_slices_that_end_in_their_header(size: int) -> None:
    frame = pa.Codec("zstd").compress(bytes(70_000), asbytes=True)
    for data in (frame, (70_000).to_bytes(8, "little") + frame):
        with pytest.raises((CorruptFileError, UnsupportedFeatureError)):
            ZSTD.decompress(_several([data[:size], data], [70_000, 70_000]))


def test_claims_beyond_the_values_are_corrupt() -> None:
    bomb = pa.Codec("zstd").compress(bytes(1 << 20))
    framed = pa.py_buffer((1 << 20).to_bytes(8, "little") + bomb.to_pybytes())
    with pytest.raises(CorruptFileError, match="claims"):
        General(ZSTD, Flat(8)).decode_blocks(Chunks.single(framed, 10))


@pytest.mark.parametrize("compression", [LZ4, ZSTD])
def test_claims_beyond_any_ratio_are_corrupt(compression: BufferCompression) -> None:
    claim = b"\xff\xff\xff\xff" if compression is LZ4 else b"\xff" * 6 + bytes(2)
    framed = pa.py_buffer(claim + b"\x10a")
    with pytest.raises(CorruptFileError, match="claims"):
        General(compression, Variable(32)).decode_blocks(Chunks.single(framed, 10))


def test_inner_encoding_must_have_the_role() -> None:
    constant = pb.CompressiveEncoding(constant=pb.Constant(value=b"x"))
    message = pb.CompressiveEncoding(general=pb.General(compression=pb.BufferCompression(scheme=1), values=constant))
    with pytest.raises(CorruptFileError, match="cannot stand"):
        parse(message, MiniBlockEncoding)


def test_unknown_scheme_is_unsupported() -> None:
    flat = pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=8))
    message = pb.CompressiveEncoding(general=pb.General(values=flat))
    with pytest.raises(UnsupportedFeatureError):
        parse(message, MiniBlockEncoding)


def test_compression_within_compression_is_corrupt() -> None:
    message = General(LZ4, General(ZSTD, Flat(8))).to_proto()
    with pytest.raises(CorruptFileError, match="again"):
        parse(message, MiniBlockEncoding)
