"""Compression of a whole buffer, by the names that `lance.encodings.Compression` uses.

Framed as in later versions (`lance_spark.encodings.buffer_compression`), but for the bare zstd frames of old
releases, whose header may not tell the size.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lance_spark.encodings.blocks import Chunks
from lance_spark.encodings.buffer_compression import BufferCompression, CompressionScheme
from lance_spark.errors import CorruptFileError

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_RESERVED_BIT = 0x08
_MAX_FRAME_BYTES = 1 << 31


def _none(data: pa.Buffer) -> pa.Buffer:
    return data


def _lz4(data: pa.Buffer) -> pa.Buffer:
    return BufferCompression(CompressionScheme.LZ4).decompress(Chunks.single(data, 0)).data


def _zstd(data: pa.Buffer) -> pa.Buffer:
    head = data.slice(0, min(data.size, 5)).to_pybytes()
    # Where a frame has its descriptor, a size of that many bytes would have a digit that no size needs.
    if head[:4] == _ZSTD_MAGIC and len(head) == 5 and not head[4] & _ZSTD_RESERVED_BIT:
        return _bare_zstd_frame(data)
    return BufferCompression(CompressionScheme.ZSTD).decompress(Chunks.single(data, 0)).data


def _bare_zstd_frame(data: pa.Buffer) -> pa.Buffer:
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            return stream.read_buffer(_MAX_FRAME_BYTES)
    except (OSError, pa.ArrowInvalid) as error:
        raise CorruptFileError(f"a zstd frame is damaged: {error}") from error


DECOMPRESSORS: dict[str, Callable[[pa.Buffer], pa.Buffer]] = {"none": _none, "": _none, "lz4": _lz4, "zstd": _zstd}
"""From a compressed buffer to the bytes meant, by scheme; raises `CorruptFileError` for a damaged buffer."""
