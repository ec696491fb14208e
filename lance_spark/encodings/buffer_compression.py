"""General compression of complete buffers (`lance.encodings21.BufferCompression`).

LZ4 is a u32 with the decompressed size and one raw LZ4 block. ZSTD is a u64 with the decompressed size and one zstd
frame; old files have the bare frame (it begins with the magic ``28 b5 2f fd``, which is implausible as a size). Empty
buffers stay empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.blocks import Chunks, Int64Array
from lance_spark.encodings.chunk_limits import starts_of
from lance_spark.encodings.decompression_limit import check_growth
from lance_spark.encodings.status import check
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.kernels.compression.lz4 import MAX_RATIO, decompress_blocks
from lance_spark.kernels.jit import address_of

if TYPE_CHECKING:
    from typing_extensions import Self

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_RESERVED_BIT = 0x08
_ZSTD_MAX_RATIO = 50_000
"""The highest ratio is a zstd block with 128 KiB of one repeated byte in 4 bytes."""
_RATIO_FREE_BYTES = 1 << 16


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
    frames = [
        _zstd_frame(chunks.data.slice(start, size))
        for start, size in zip(chunks.starts.tolist(), chunks.sizes.tolist(), strict=True)
    ]
    sizes = np.array([claimed for _, claimed in frames], np.uint64).astype(np.int64)
    _check_claims(sizes, chunks.sizes, _ZSTD_MAX_RATIO, limits)
    codec = pa.Codec("zstd")
    try:
        parts = [codec.decompress(frame, claimed) if claimed else b"" for frame, claimed in frames]
    except OSError as error:
        raise CorruptFileError(f"general: a zstd buffer is damaged: {error}") from error
    starts = np.cumsum(sizes) - sizes
    if len(parts) == 1 and frames[0][1]:
        return Chunks(parts[0], starts, sizes, chunks.num_values)
    target = pa.allocate_buffer(int(sizes.sum()))
    view = np.frombuffer(target, np.uint8)
    for part, start, size in zip(parts, starts.tolist(), sizes.tolist(), strict=True):
        view[start : start + size] = np.frombuffer(part, np.uint8)
    return Chunks(target, starts, sizes, chunks.num_values)


def _zstd_frame(data: pa.Buffer) -> tuple[pa.Buffer, int]:
    """The frame and the size it decompresses to."""
    head = data.slice(0, min(data.size, 18)).to_pybytes()
    if not head:
        return data, 0
    if head[:4] == _ZSTD_MAGIC and len(head) > 4 and not head[4] & _ZSTD_RESERVED_BIT:
        return data, _zstd_content_size(head)
    if len(head) < 8:
        raise CorruptFileError("general: a zstd buffer is shorter than its header")
    return data.slice(8), int.from_bytes(head[:8], "little")


def _zstd_content_size(head: bytes) -> int:
    """The content size in the header of a zstd frame (RFC 8878, 3.1.1.1)."""
    descriptor = head[4]
    single_segment = bool(descriptor & 0x20)
    size_bytes = (1 if single_segment else 0, 2, 4, 8)[descriptor >> 6]
    if size_bytes == 0:
        raise UnsupportedFeatureError("a bare zstd frame without its content size", feature="zstd")
    start = 5 + (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 3]
    field = head[start : start + size_bytes]
    if len(field) < size_bytes:
        raise CorruptFileError("general: a zstd frame ends in its header")
    return int.from_bytes(field, "little") + (256 if size_bytes == 2 else 0)
