"""GB/s of decoded bytes for each codec, in pages of a few MB: ``python benchmarks/kernels.py [name...]``.

CPU time is measured. Numbers of one run can be compared with each other only. ``memcpy`` is the line to compare with.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from lance_spark.encodings.base import EncodedBlock, EncodedMiniBlocks
from lance_spark.encodings.blocks import (
    Block,
    ChunkLimits,
    Chunks,
    FixedSizeListBlock,
    FixedWidthBlock,
    VariableWidthBlock,
    equal_chunks,
)
from lance_spark.encodings.buffer_compression import BufferCompression, CompressionScheme
from lance_spark.encodings.byte_stream_split import ByteStreamSplit
from lance_spark.encodings.fixed_size_list import FixedSizeList
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.fsst import Fsst
from lance_spark.encodings.general import General
from lance_spark.encodings.inline_bitpacking import InlineBitpacking
from lance_spark.encodings.out_of_line_bitpacking import OutOfLineBitpacking
from lance_spark.encodings.rle import Rle
from lance_spark.encodings.variable import Variable

PAGE_BYTES = 8 << 20
LIMITS = ChunkLimits()


def apart(chunks: Chunks) -> Chunks:
    """The slices with 16 bytes between them, as headers keep them apart in a page."""
    sizes = (chunks.sizes + 7) // 8 * 8 + 16
    starts = np.cumsum(sizes) - sizes
    target = np.zeros(int(sizes.sum()), np.uint8)
    source = np.frombuffer(chunks.data, np.uint8)
    for old, new, size in zip(chunks.starts, starts, chunks.sizes, strict=True):
        target[new : new + size] = source[old : old + size]
    return Chunks(pa.py_buffer(target), starts, chunks.sizes, chunks.num_values)


def num_bytes(block: Block) -> int:
    if isinstance(block, FixedWidthBlock):
        return block.num_values * block.bits_per_value // 8
    if isinstance(block, VariableWidthBlock):
        return block.data.size + block.num_values * block.bits_per_offset // 8
    assert isinstance(block, FixedSizeListBlock)
    return num_bytes(block.items)


def fixed(values: np.ndarray[Any, Any]) -> FixedWidthBlock:
    return FixedWidthBlock(pa.py_buffer(values), values.dtype.itemsize * 8, len(values))


def strings(values: list[str]) -> VariableWidthBlock:
    _, offsets, data = pa.array(values).buffers()
    return VariableWidthBlock(offsets, data, 32, len(values))


def texts() -> dict[str, VariableWidthBlock]:
    rng = np.random.default_rng(1)
    words = ["".join(rng.choice(list("etaoinshrdlu"), size)) for size in rng.integers(2, 10, 2000)]
    chosen = rng.integers(0, 2000, (PAGE_BYTES // 200, 35))
    return {
        "12 B unique": strings([f"id-{number:09d}" for number in rng.integers(0, 10**9, PAGE_BYTES // 16).tolist()]),
        "1,000 words": strings([words[number] for number in rng.integers(0, 1000, PAGE_BYTES // 10).tolist()]),
        "text 200 B": strings([" ".join(words[number] for number in row) for row in chosen.tolist()]),
    }


def encoders() -> Iterator[tuple[str, Block, Callable[[], Any]]]:
    """Name, values, and what encodes them."""
    rng = np.random.default_rng(1)
    for dtype in (np.int8, np.int16, np.int32, np.int64):
        bits = np.dtype(dtype).itemsize * 8
        width = min(10, bits - 2)
        values = fixed(rng.integers(0, 1 << width, PAGE_BYTES * 8 // bits).astype(dtype))
        yield f"inline {bits} -> {width}", values, lambda v=values: InlineBitpacking.encode_mini_blocks(v)
    rising = fixed(np.sort(rng.integers(0, 1 << 30, PAGE_BYTES // 4)).astype(np.int32))
    yield "inline sorted int32", rising, lambda: InlineBitpacking.encode_mini_blocks(rising)
    plain = fixed(rng.integers(0, 1 << 62, PAGE_BYTES // 8))
    yield "flat 64", plain, lambda: Flat.encode_mini_blocks(plain, LIMITS)
    yield "split 64", plain, lambda: ByteStreamSplit.encode_mini_blocks(plain, LIMITS)
    bits = FixedWidthBlock(pa.py_buffer(rng.bytes(PAGE_BYTES)), 1, PAGE_BYTES * 8)
    yield "flat 1", bits, lambda: Flat.encode_mini_blocks(bits, LIMITS)
    vectors = FixedSizeListBlock(fixed(rng.random(PAGE_BYTES // 4).astype(np.float32)), 32, None, PAGE_BYTES // 128)
    yield "vectors of 32 floats", vectors, lambda: FixedSizeList.encode_mini_blocks(vectors, LIMITS)
    for run in (3, 20, 300):
        runs = fixed(np.repeat(rng.integers(0, 100, PAGE_BYTES // 8 // run + 1), run)[: PAGE_BYTES // 8])
        yield f"runs of {run}", runs, lambda v=runs: Rle.encode_mini_blocks(v, LIMITS)
    levels = fixed((rng.random(PAGE_BYTES // 2) < 0.1).astype(np.uint16))
    counts = equal_chunks(levels.num_values, 4096)
    yield "levels", levels, lambda: OutOfLineBitpacking.encode_blocks(levels, counts, 1)
    for name, block in texts().items():
        yield f"plain {name}", block, lambda b=block: Variable.encode_mini_blocks(b, LIMITS)
        yield f"fsst {name}", block, lambda b=block: Fsst.encode_mini_blocks(b, LIMITS)
    for scheme in CompressionScheme:
        compression = BufferCompression(scheme)
        block = texts()["text 200 B"]
        whole = Variable.encode_block(block)
        yield f"{scheme.name} block", block, lambda w=whole, c=compression: General.encode_block(w, c)
        encoded = Variable.encode_mini_blocks(block, LIMITS)
        yield f"{scheme.name} chunks", block, lambda e=encoded, c=compression: General.encode_mini_blocks(e, c)


def decoder(encoded: Any) -> Callable[[], Block]:
    if isinstance(encoded, EncodedMiniBlocks):
        buffers = [apart(chunks) for chunks in encoded.buffers]
        return lambda: encoded.encoding.decode_mini_blocks(buffers)
    if isinstance(encoded, EncodedBlock):
        return lambda: encoded.encoding.decode_blocks(Chunks.single(encoded.data, encoded.num_values))
    chunks = apart(encoded.chunks)
    return lambda: encoded.encoding.decode_blocks(chunks)


def best_seconds(call: Callable[[], Any], rounds: int) -> float:
    call()
    times = []
    for _ in range(rounds):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    wanted = sys.argv[1:]
    source = np.ones(PAGE_BYTES, np.uint8)

    def memcpy() -> None:
        np.frombuffer(pa.allocate_buffer(PAGE_BYTES), np.uint8)[:] = source

    print(f"{'':24}{'decode':>8}{'encode':>8}  GB/s of values   bytes")
    print(f"{'memcpy':24}{PAGE_BYTES / best_seconds(memcpy, 15) / 1e9:8.2f}")
    for name, values, encode in encoders():
        if wanted and not any(part in name for part in wanted):
            continue
        encoded = encode()
        size = num_bytes(values)
        decode = decoder(encoded)
        speeds = size / best_seconds(decode, 15) / 1e9, size / best_seconds(encode, 5) / 1e9
        buffers = encoded.buffers if isinstance(encoded, EncodedMiniBlocks) else []
        stored = sum(int(chunks.sizes.sum()) for chunks in buffers)
        share = f"{stored / size:8.2f}" if stored else ""
        print(f"{name:24}{speeds[0]:8.2f}{speeds[1]:8.2f}{'':17}{share}")


if __name__ == "__main__":
    main()
