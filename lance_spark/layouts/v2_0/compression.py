"""Compression of complete buffers, by the scheme names of `lance.encodings.Compression`.

Framed as in later versions (`lance_spark.encodings.buffer_compression`), except for the bare zstd frames of old
releases, whose header may lack the size. A zstd frame is decompressed about as far as its bytes are needed, regardless
of the size it claims.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lance_spark.encodings.blocks import Chunks
from lance_spark.encodings.buffer_compression import BufferCompression, CompressionScheme, check_growth
from lance_spark.errors import CorruptFileError

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_RESERVED_BIT = 0x08
_SIZE_BYTES = 8
_SPARE_SHARE = 8
"""A frame is decompressed as a whole if no more than that share of what is needed is added."""
_MARGIN_BYTES = 64
"""Extra bytes to decompress beyond those needed: most frames end there, so their end is checked."""


def _none(data: pa.Buffer, _needed: int) -> pa.Buffer:
    return data


def _lz4(data: pa.Buffer, _needed: int) -> pa.Buffer:
    return BufferCompression(CompressionScheme.LZ4).decompress(Chunks.single(data, 0)).data


def _zstd(data: pa.Buffer, needed: int) -> pa.Buffer:
    if data.size == 0:
        return data
    head = data.slice(0, min(data.size, _SIZE_BYTES)).to_pybytes()
    # Where a frame has its descriptor, a size of that many bytes would have a digit that no size needs.
    if head[:4] == _ZSTD_MAGIC and len(head) > 4 and not head[4] & _ZSTD_RESERVED_BIT:
        return _zstd_frame(data, needed)
    if len(head) < _SIZE_BYTES:
        raise CorruptFileError("a zstd buffer is shorter than its header")
    claimed = int.from_bytes(head, "little")
    if claimed == 0:
        return data.slice(0, 0)
    frame = data.slice(_SIZE_BYTES)
    whole = _whole_frame(frame, claimed) if claimed <= needed + needed // _SPARE_SHARE else None
    if whole is not None:
        return whole
    found = _zstd_frame(frame, needed)
    if found.size != min(claimed, needed + _MARGIN_BYTES):
        raise CorruptFileError(f"a zstd buffer holds {found.size} bytes or more, and claims {claimed}")
    return found


def _whole_frame(data: pa.Buffer, claimed: int) -> pa.Buffer | None:
    """All of a frame, at once; None if it is damaged, or more follows it. A stream, in parts, takes a third longer."""
    check_growth(data.size, claimed)
    try:
        return pa.Codec("zstd").decompress(data, claimed)
    except (OSError, pa.ArrowInvalid):
        return None


def _zstd_frame(data: pa.Buffer, needed: int) -> pa.Buffer:
    """The first bytes of a frame, up to `_MARGIN_BYTES` more than needed."""
    check_growth(data.size, needed)
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            return stream.read_buffer(needed + _MARGIN_BYTES)
    except (OSError, pa.ArrowInvalid) as error:
        raise CorruptFileError(f"a zstd frame is damaged: {error}") from error


DECOMPRESSORS: dict[str, Callable[[pa.Buffer, int], pa.Buffer]] = {
    "none": _none,
    "": _none,
    "lz4": _lz4,
    "zstd": _zstd,
}
"""Decompressors by scheme: from a compressed buffer and the number of leading bytes needed to these bytes.

They raise `CorruptFileError` for a corrupt buffer, or one that would exceed the limit.
"""
