"""The headers of many zstd frames in one call (RFC 8878, 3.1.1.1); the frames themselves are left to Arrow.

A slice is a u64 with the decompressed size and one frame, or in old files the bare frame: it begins with the magic
``28 b5 2f fd``, which is implausible as a size. Addresses, lengths and counts are int64.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_i64, pointer_u8
from lance_spark.kernels.words import read_word

HEAD_BYTES = 8
"""Bytes of the size before a frame."""

UNKNOWN = -1
"""A frame does not say how many bytes it holds."""

CUT = -2
"""A slice ends in the header of its frame, or before it."""

_MAGIC = 0xFD2FB528
_RESERVED_BIT = 8
_MAX_SIZE = 1 << 62


@inlined
def _content_size(frame, size):
    if size < 5:
        return np.int64(CUT)
    if read_word(frame, 4) != np.uint64(_MAGIC):
        return np.int64(UNKNOWN)
    descriptor = np.int64(pointer_u8(frame)[4])
    single_segment = (descriptor >> 5) & 1
    width = (np.int64(1) << (descriptor >> 6)) if descriptor >> 6 else single_segment
    if width == 0:
        return np.int64(UNKNOWN)
    dictionary_bytes = (np.int64(1) << (descriptor & 3)) >> 1
    start = 5 + (1 - single_segment) + dictionary_bytes
    if start + width > size:
        return np.int64(CUT)
    content = read_word(frame + start, width)
    if content > np.uint64(_MAX_SIZE):
        return np.int64(_MAX_SIZE)
    return np.int64(content) + (256 if width == 2 else 0)


@kernel("void(int64, int64, int64, int64, int64, int64, int64)")
def find_frames(data, starts, sizes, num_slices, frames, claims, contents):
    """Finds the start of each slice's frame, and its decompressed size.

    Args:
        starts, sizes: int64[num_slices], the slices in `data`.
        frames: becomes the starts of the frames.
        claims: becomes the size that a slice claims: of a bare frame what the frame says; 0 for an empty slice, at most
            2**62. `UNKNOWN` or `CUT` if it claims none.
        contents: becomes the size that the frame itself says, `UNKNOWN` or `CUT`.
    """
    start = pointer_i64(starts)
    size = pointer_i64(sizes)
    frame = pointer_i64(frames)
    claim = pointer_i64(claims)
    content = pointer_i64(contents)
    for i in range(num_slices):
        at = data + start[i]
        frame[i] = start[i]
        claim[i] = 0
        content[i] = 0
        if size[i] == 0:
            continue
        is_bare = size[i] > 4 and read_word(at, 4) == np.uint64(_MAGIC)
        if is_bare and not pointer_u8(at)[4] & _RESERVED_BIT:
            content[i] = _content_size(at, size[i])
            claim[i] = content[i]
        elif size[i] < HEAD_BYTES:
            claim[i] = CUT
            content[i] = CUT
        else:
            frame[i] += HEAD_BYTES
            content[i] = _content_size(at + HEAD_BYTES, size[i] - HEAD_BYTES)
            claim[i] = np.int64(min(read_word(at, 8), np.uint64(_MAX_SIZE)))
