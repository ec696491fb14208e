"""General compression of complete buffers (`lance.encodings21.BufferCompression`).

LZ4 is a u32 with the decompressed size and one raw LZ4 block. ZSTD is a u64 with the decompressed size and one zstd
frame; old files have the bare frame (it begins with the magic ``28 b5 2f fd``, which is implausible as a size). Empty
buffers stay empty.

A few bytes of zstd can expand to gigabytes. Where the metadata of a page bounds the size, that bound applies;
`check_growth` is for the rest, and for wrong metadata. Sizes are checked before any allocation.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.blocks import Chunks, Int64Array, check, starts_of
from lance_spark.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_spark.kernels.compression.lz4 import MAX_RATIO, decompress_blocks
from lance_spark.kernels.compression.zstd import UNKNOWN, find_frames
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.slices import concatenate

if TYPE_CHECKING:
    from typing_extensions import Self

VARIABLE = "LANCE_SPARK_MAX_DECOMPRESSED_BYTES"
"""The environment variable that sets the limit."""

DEFAULT_MAX_BYTES = 256 << 20
"""Pages have 8 to 32 MiB; only a single large value can exceed that."""

FREE_RATIO = 16
"""Expansion up to this factor is always allowed: its memory is proportional to the file size."""

_ZSTD_MAX_RATIO = 50_000
"""The highest ratio is a zstd block with 128 KiB of one repeated byte in 4 bytes."""
_RATIO_FREE_BYTES = 1 << 16
_STREAMED_BYTES = 1 << 15
"""Frames of up to that many bytes are decompressed as one stream."""


def max_decompressed_bytes() -> int:
    """The limit in bytes.

    Raises:
        InvalidInputError: the environment variable is not a number of bytes.
    """
    text = os.environ.get(VARIABLE, "")
    if not text:
        return DEFAULT_MAX_BYTES
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidInputError(f"{VARIABLE} is {text!r}; set it to a number of bytes, such as {DEFAULT_MAX_BYTES}")
    return int(text)


def check_growth(compressed: int, decompressed: int) -> None:
    """Checks that `compressed` bytes may expand to `decompressed` bytes.

    Raises:
        CorruptFileError: above the limit.
    """
    if decompressed <= FREE_RATIO * compressed:
        return
    limit = max_decompressed_bytes()
    if decompressed > limit:
        raise CorruptFileError(
            f"{compressed} compressed bytes claim to hold {decompressed}, the limit is {limit}; "
            f"if the file can be trusted, set {VARIABLE} to a larger number of bytes"
        )


class CompressionScheme(IntEnum):
    """`lance.encodings21.CompressionScheme`."""

    LZ4 = 1
    ZSTD = 2


def refuse_buffer_compression(message: Any, field: str, wire_name: str) -> None:
    """Checks that an optional `BufferCompression` that no writer sets is not set.

    Raises:
        UnsupportedFeatureError: it is set.
    """
    if message.HasField(field) and getattr(message, field).scheme != 0:
        raise UnsupportedFeatureError(f"{wire_name} with a compressed buffer of its own", feature="buffer compression")


@dataclass(frozen=True, slots=True)
class BufferCompression:
    """The compression of buffers; `level` matters only for writing, None is the library's default."""

    scheme: CompressionScheme
    level: int | None = None

    @classmethod
    def from_proto(cls, message: Any) -> Self:
        """Raises `UnsupportedFeatureError` for an unknown scheme."""
        level = message.level if message.HasField("level") else None
        try:
            return cls(CompressionScheme(message.scheme), level)
        except ValueError:
            raise UnsupportedFeatureError(
                f"the compression scheme {message.scheme} is not known", feature="buffer compression"
            ) from None

    def to_proto(self) -> Any:
        """The message."""
        return pb.BufferCompression(scheme=pb.BufferCompression.Scheme.ValueType(self.scheme), level=self.level)

    def compress(self, chunks: Chunks) -> Chunks:
        """Every slice compressed, in one new buffer. Empty slices stay empty."""
        level = self.level or None
        if self.scheme is CompressionScheme.LZ4:
            codec, prefix = pa.Codec("lz4_raw"), "<u4"
        else:
            codec, prefix = pa.Codec("zstd", compression_level=level), "<u8"
        parts: list[bytes] = []
        sizes = np.zeros(len(chunks.sizes), np.int64)
        for index, (start, size) in enumerate(zip(chunks.starts.tolist(), chunks.sizes.tolist(), strict=True)):
            if size:
                body = codec.compress(chunks.data.slice(start, size), asbytes=True)
                head = np.array(size, prefix).tobytes()
                parts += (head, body)
                sizes[index] = len(head) + len(body)
        return Chunks(pa.py_buffer(b"".join(parts)), starts_of(sizes), sizes, chunks.num_values)

    def decompress(self, chunks: Chunks, limits: Int64Array | None = None) -> Chunks:
        """Every slice decompressed, in one new buffer.

        Args:
            limits: maximum bytes of each slice, if known.

        Raises:
            CorruptFileError: a slice is corrupt, its claimed size is implausible, or the total is above the limit.
        """
        if self.scheme is CompressionScheme.LZ4:
            return _decompress_lz4(chunks, limits)
        return _decompress_zstd(chunks, limits)


def _check_claims(claims: Int64Array, sizes: Int64Array, ratio: int, limits: Int64Array | None) -> None:
    allowed = sizes * ratio + _RATIO_FREE_BYTES if limits is None else np.minimum(limits, sizes * ratio)
    if bool(((claims < 0) | (claims > allowed)).any()):
        raise CorruptFileError("general: a buffer claims to decompress to more bytes than it can")
    # No single claimed size is above 2**62 here, but their sum may be.
    check_growth(sum(sizes.tolist()), sum(claims.tolist()))


def _decompress_lz4(chunks: Chunks, limits: Int64Array | None) -> Chunks:
    filled = chunks.sizes > 0
    if bool((chunks.sizes[filled] < 4).any()):
        raise CorruptFileError("general: an LZ4 buffer is shorter than its header")
    places = chunks.starts[filled, None] + np.arange(4)
    claims = np.zeros(len(chunks.sizes), np.int64)
    claims[filled] = np.frombuffer(chunks.data, np.uint8)[places].view("<u4").reshape(-1)
    _check_claims(claims, chunks.sizes, MAX_RATIO, limits)
    starts = chunks.starts + 4 * filled
    sizes = chunks.sizes - 4 * filled
    target = pa.allocate_buffer(int(claims.sum()))
    status = decompress_blocks(
        chunks.data.address,
        address_of(starts),
        address_of(sizes),
        address_of(claims),
        len(claims),
        target.address,
    )
    check(status, "general")
    return Chunks(target, np.cumsum(claims) - claims, claims, chunks.num_values)


def _decompress_zstd(chunks: Chunks, limits: Int64Array | None) -> Chunks:
    starts, sizes = np.ascontiguousarray(chunks.starts), np.ascontiguousarray(chunks.sizes)
    frames, claims, contents = np.empty((3, len(starts)), np.int64)
    tables = (
        [address_of(table) for table in (starts, sizes)],
        [address_of(table) for table in (frames, claims, contents)],
    )
    find_frames(chunks.data.address, *tables[0], len(starts), *tables[1])
    if bool((claims < 0).any()):
        if bool((claims == UNKNOWN).any()):
            raise UnsupportedFeatureError("a bare zstd frame without its content size", feature="zstd")
        raise CorruptFileError("general: a zstd buffer ends before its header does")
    _check_claims(claims, sizes, _ZSTD_MAX_RATIO, limits)
    filled = claims > 0
    slices = Chunks.located(chunks.data, frames[filled], (sizes - frames + starts)[filled], claims[filled])
    target = None
    if bool((contents == claims).all()) and len(slices.sizes) > 1:
        target = _decompressed_stream(slices)
    if target is None:
        target = _decompressed_frames(slices)
    return Chunks(target, np.cumsum(claims) - claims, claims, chunks.num_values)


def _decompressed_stream(frames: Chunks) -> pa.Buffer | None:
    """The decompressed frames, one behind the other; None if they are large or damaged, or their sizes are wrong.

    Arrow makes a context for each frame that it decompresses by itself: 9 us, three times as long as it takes to
    decompress 4 KiB. Of a stream, it makes one. It passes on 64 KiB at a time, so larger frames would be copied.
    """
    total = frames.total_values
    if total > _STREAMED_BYTES * len(frames.sizes):
        return None
    joined, target = pa.allocate_buffer(int(frames.sizes.sum())), pa.allocate_buffer(total)
    concatenate(
        frames.data.address, address_of(frames.starts), address_of(frames.sizes), len(frames.sizes), joined.address
    )
    try:
        with pa.CompressedInputStream(pa.BufferReader(joined), "zstd") as stream:
            is_complete = stream.readinto(target) == total and not stream.read(1)
    except OSError:
        # One by one, which says of what is damaged.
        return None
    return target if is_complete else None


def _decompressed_frames(frames: Chunks) -> pa.Buffer:
    """The decompressed frames, one behind the other, each decompressed by itself.

    Raises:
        CorruptFileError: a frame is damaged, or holds another number of bytes.
    """
    codec = pa.Codec("zstd")
    slices = zip(frames.starts.tolist(), frames.sizes.tolist(), frames.num_values.tolist(), strict=True)
    try:
        parts = [codec.decompress(frames.data.slice(start, size), content) for start, size, content in slices]
    except OSError as error:
        raise CorruptFileError(f"general: a zstd buffer is damaged: {error}") from error
    if len(parts) == 1:
        return parts[0]
    return pa.py_buffer(b"".join(parts))
