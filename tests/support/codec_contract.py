"""What every compressive encoding must do. A test class inherits `CodecContract` and lists encoded `cases`.

A case is what an encoder returned, with the values that it was given: the codec goes over the wire, decodes, and must
give the values back. Damaged bytes must be found, or decode to some values, but never do anything else. All memory is
guarded, so reading or writing outside of a buffer ends the test run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import (
    BlockEncoding,
    EncodedBlock,
    EncodedBlocks,
    EncodedMiniBlocks,
    EncodedValues,
    MiniBlockEncoding,
    PerValueEncoding,
)
from lance_spark.encodings.blocks import (
    Block,
    ChunkLimits,
    Chunks,
    FixedSizeListBlock,
    FixedWidthBlock,
    PackedStructBlock,
    VariableWidthBlock,
)
from lance_spark.encodings.registry import parse
from lance_spark.errors import CorruptFileError, LanceError
from tests.support.guarded_memory import allocate_guarded, guarded

Encoded = EncodedMiniBlocks[Any] | EncodedBlocks[Any] | EncodedBlock[Any] | EncodedValues[Any]

EDGE_LENGTHS = (0, 1, 2, 7, 1023, 1024, 1025, 4097)

LIMITS = (ChunkLimits(), ChunkLimits(max_values=32768, max_bytes=1 << 20), ChunkLimits(max_values=4, max_bytes=64))


@dataclass(frozen=True)
class Case:
    """`encoded` holds `values`."""

    name: str
    values: Block
    encoded: Encoded


def fixed_width(values: np.ndarray[Any, Any]) -> FixedWidthBlock:
    """A block of the values of an array; booleans become bits."""
    if values.dtype == np.bool_:
        return FixedWidthBlock(pa.py_buffer(np.packbits(values, bitorder="little").tobytes()), 1, len(values))
    return FixedWidthBlock(pa.py_buffer(values.tobytes()), values.dtype.itemsize * 8, len(values))


def variable_width(values: list[bytes], bits_per_offset: int = 32) -> VariableWidthBlock:
    """A block of byte strings."""
    offsets = np.zeros(len(values) + 1, f"<i{bits_per_offset // 8}")
    offsets[1:] = np.cumsum([len(value) for value in values])
    return VariableWidthBlock(pa.py_buffer(offsets), pa.py_buffer(b"".join(values)), bits_per_offset, len(values))


def _bits(data: pa.Buffer, count: int) -> bytes:
    return np.unpackbits(np.frombuffer(data, np.uint8), count=count, bitorder="little").tobytes()


def meaning(block: Block) -> Any:
    """The values of a block, comparable whatever its buffers look like."""
    if isinstance(block, FixedWidthBlock):
        num_bits = block.num_values * block.bits_per_value
        if num_bits % 8:
            return (block.bits_per_value, _bits(block.data, num_bits))
        return (block.bits_per_value, np.frombuffer(block.data, np.uint8, num_bits // 8).tobytes())
    if isinstance(block, VariableWidthBlock):
        offsets = np.frombuffer(block.offsets, f"<i{block.bits_per_offset // 8}", block.num_values + 1)
        data = block.data.to_pybytes()
        return [data[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    if isinstance(block, FixedSizeListBlock):
        num_items = block.num_values * block.dimension
        validity = None if block.validity is None else _bits(block.validity, num_items)
        return (block.dimension, validity, meaning(block.items))
    assert isinstance(block, PackedStructBlock)
    return [meaning(child) for child in block.children]


def slices_of(encoded: Encoded) -> list[Chunks]:
    """The encoded bytes: one entry a buffer, a slice a chunk."""
    if isinstance(encoded, EncodedMiniBlocks):
        return encoded.buffers
    if isinstance(encoded, EncodedBlocks):
        return [encoded.chunks]
    if isinstance(encoded, EncodedBlock):
        return [Chunks.single(encoded.data, encoded.num_values)]
    return [Chunks.single(encoded.block.data, encoded.block.num_values)]


def _over_the_wire(encoded: Encoded) -> Any:
    roles = {
        EncodedMiniBlocks: MiniBlockEncoding,
        EncodedBlocks: BlockEncoding,
        EncodedBlock: BlockEncoding,
        EncodedValues: PerValueEncoding,
    }
    message = pb.CompressiveEncoding.FromString(encoded.encoding.to_proto().SerializeToString())
    return parse(message, roles[type(encoded)])


def decode(encoded: Encoded, change: Callable[[int, Chunks], Chunks] | None = None) -> Block:
    """Decodes with the codec that the message describes, from guarded copies of the buffers.

    `change` may damage buffer i.
    """
    codec = _over_the_wire(encoded)
    slices = [_guarded_chunks(chunks) for chunks in slices_of(encoded)]
    if change is not None:
        slices = [change(index, chunks) for index, chunks in enumerate(slices)]
    if isinstance(encoded, EncodedMiniBlocks):
        return codec.decode_mini_blocks(slices)
    if isinstance(encoded, EncodedValues):
        return codec.decode_values(_with_data(encoded.block, slices[0].data))
    return codec.decode_blocks(slices[0])


def _with_data(block: FixedWidthBlock | VariableWidthBlock, data: pa.Buffer) -> FixedWidthBlock | VariableWidthBlock:
    if isinstance(block, FixedWidthBlock):
        return FixedWidthBlock(data, block.bits_per_value, block.num_values)
    return VariableWidthBlock(guarded(block.offsets), data, block.bits_per_offset, block.num_values)


def _guarded_chunks(chunks: Chunks) -> Chunks:
    """The slices moved together, the last one at the end of memory."""
    parts = [
        chunks.data.slice(start, size).to_pybytes()
        for start, size in zip(chunks.starts.tolist(), chunks.sizes.tolist(), strict=True)
    ]
    # Real chunks begin on multiples of 8; here the distances are odd, which must work as well.
    starts = np.array([sum(map(len, parts[:index])) + 3 * index for index in range(len(parts))], np.int64)
    return Chunks(guarded(b"\xfe\xfe\xfe".join(parts)), starts, chunks.sizes, chunks.num_values)


class CodecContract:
    """Inherit and override `cases`."""

    num_flips = 600

    @staticmethod
    def cases() -> Iterator[Case]:
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _guard(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pa, "allocate_buffer", allocate_guarded)

    def small_cases(self) -> Iterator[Case]:
        """The cases of a few bytes."""
        for case in self.cases():
            if 0 < sum(int(chunks.sizes.sum()) for chunks in slices_of(case.encoded)) <= 400:
                yield case

    def test_round_trip(self) -> None:
        for case in self.cases():
            decoded = decode(case.encoded)
            assert decoded.num_values == case.values.num_values, case.name
            assert meaning(decoded) == meaning(case.values), case.name

    def test_wire_form_round_trips(self) -> None:
        for case in self.cases():
            assert _over_the_wire(case.encoded) == case.encoded.encoding, case.name

    def test_chunks_keep_to_the_format(self) -> None:
        for case in self.cases():
            if isinstance(case.encoded, EncodedMiniBlocks):
                counts = case.encoded.num_values
                assert len(case.encoded.buffers) == case.encoded.encoding.num_buffers, case.name
                assert int(counts.sum()) == case.values.num_values, case.name
                assert all(int(count).bit_count() == 1 and 2 <= count <= 32768 for count in counts[:-1]), case.name
                for chunks in case.encoded.buffers:
                    assert chunks.num_values.tolist() == counts.tolist(), case.name

    def test_truncated_bytes_are_corrupt_or_enough(self) -> None:
        for case in self.small_cases():
            for buffer, chunks in enumerate(slices_of(case.encoded)):
                for size in range(int(chunks.sizes[-1])):
                    self._decode_truncated(case, buffer, size)

    def _decode_truncated(self, case: Case, buffer: int, size: int) -> None:
        def truncate(index: int, chunks: Chunks) -> Chunks:
            if index != buffer:
                return chunks
            sizes = chunks.sizes.copy()
            sizes[-1] = size
            data = guarded(chunks.data.slice(0, int(chunks.starts[-1]) + size))
            return Chunks(data, chunks.starts, sizes, chunks.num_values)

        if isinstance(case.encoded, EncodedValues):
            return  # The layout has cut the values out, so they cannot be too short.
        try:
            decoded = decode(case.encoded, truncate)
        except CorruptFileError:
            return
        assert meaning(decoded) == meaning(case.values), (case.name, buffer, size)

    def test_wrong_counts_are_corrupt_or_harmless(self) -> None:
        for case in self.cases():
            if isinstance(case.encoded, EncodedValues) or case.values.num_values > 1025:
                continue
            for count in (0, 1025, 1 << 31, 1 << 40, (1 << 63) - 1):
                self._decode_with_count(case, count)

    def _decode_with_count(self, case: Case, count: int) -> None:
        def recount(index: int, chunks: Chunks) -> Chunks:
            counts = chunks.num_values.copy()
            counts[-1] = count
            return Chunks(chunks.data, chunks.starts, chunks.sizes, counts)

        try:
            decoded = decode(case.encoded, recount)
        except LanceError:
            return
        before = int(slices_of(case.encoded)[0].num_values[:-1].sum())
        assert decoded.num_values == before + count, (case.name, count)

    def test_flipped_bits_never_crash(self) -> None:
        rng = np.random.default_rng(7)
        cases = [case for case in self.cases() if 0 < case.values.num_values <= 1025]
        for _ in range(self.num_flips):
            self._decode_flipped(cases[int(rng.integers(0, len(cases)))], rng)

    def _decode_flipped(self, case: Case, rng: np.random.Generator) -> None:
        def flip(index: int, chunks: Chunks) -> Chunks:
            data = np.frombuffer(chunks.data, np.uint8).copy()
            for _ in range(int(rng.integers(1, 4))):
                if len(data):
                    data[rng.integers(0, min(len(data), 64) if rng.random() < 0.5 else len(data))] = rng.integers(
                        0, 256
                    )
            return Chunks(guarded(data.tobytes()), chunks.starts, chunks.sizes, chunks.num_values)

        try:
            decoded = decode(case.encoded, flip)
        except LanceError:
            return
        assert decoded.num_values == case.values.num_values, case.name
        meaning(decoded)
