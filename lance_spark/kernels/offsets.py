"""Offsets of byte strings in chunks (`lance.encodings21.Variable`).

A chunk has n + 1 offsets and the bytes they refer to. Decoding joins chunks to one run of offsets from 0 and one run of
bytes; encoding splits a run into chunks.

Worked example (n = 3, 32-bit offsets, relative to the start of the chunk)::

    10000000 11000000 11000000 13000000 78 797a    ->    offsets 0, 1, 1, 3 and the bytes "xyz"

Addresses, lengths and counts are int64. A negative result is ``~i``, where i is the first chunk whose offsets decrease
or are out of bounds; the output is then undefined.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_i64, pointer_u8, pointer_u32
from lance_spark.kernels.words import copy_chunk, offset_at, write_offset


@inlined
def _rebase_32(source, num_values, base, target):
    """Writes num_values offsets, each plus `base`; returns True if they never decrease."""
    before = pointer_u32(source)
    out = pointer_u32(target)
    falls = np.uint32(0)
    shift = np.uint32(base & 0xFFFFFFFF)
    for i in range(np.uint64(num_values)):
        out[i] = before[i] + shift
        falls |= np.uint32(before[i + np.uint64(1)] < before[i])
    return falls == 0


@inlined
def _rebase_64(source, offset_bytes, num_values, base, target):
    out = pointer_i64(target)
    last = offset_at(source, offset_bytes, 0)
    rises = last >= 0
    for i in range(num_values):
        out[i] = last + base
        following = offset_at(source, offset_bytes, i + 1)
        rises &= following >= last
        last = following
    return rises


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def concatenate_variable(
    data,
    data_size,
    offset_starts,
    origins,
    limits,
    num_values,
    num_chunks,
    offset_bytes,
    target_offset_bytes,
    target_offsets,
    target_data,
):
    """Joins chunks of byte strings; returns the number of bytes written to `target_data`.

    Args:
        data_size: bytes at `data`.
        offset_starts: position in `data` of the num_values[i] + 1 offsets of chunk i.
        origins: position in `data` of offset 0 of chunk i.
        limits: largest offset allowed in chunk i; origins[i] + limits[i] is within `data`.
        offset_bytes: 4 or 8.
        target_offset_bytes: 4 or 8, not less than `offset_bytes`; 4 only if the total is less than 2 GiB.
        target_offsets: room for one more offset than there are values.
        target_data: room for sum(limits).
    """
    offset_start = pointer_i64(offset_starts)
    origin = pointer_i64(origins)
    limit = pointer_i64(limits)
    count = pointer_i64(num_values)
    filled = 0
    for i in range(np.uint64(num_chunks)):
        n = count[i]
        if n == 0:
            continue
        if n >= data_size or offset_start[i] + (n + 1) * offset_bytes > data_size:
            return ~np.int64(i)
        offsets = data + offset_start[i]
        first = offset_at(offsets, offset_bytes, 0)
        last = offset_at(offsets, offset_bytes, n)
        if first < 0 or last < first or last > limit[i]:
            return ~np.int64(i)
        if target_offset_bytes == 4:
            rises = _rebase_32(offsets, n, filled - first, target_offsets)
        else:
            rises = _rebase_64(offsets, offset_bytes, n, filled - first, target_offsets)
        if not rises:
            return ~np.int64(i)
        copy_chunk(target_data + filled, data + origin[i] + first, last - first)
        filled += last - first
        target_offsets += n * target_offset_bytes
    write_offset(target_offsets, target_offset_bytes, 0, filled)
    return filled


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def plan_variable_chunks(offsets, offset_bytes, num_values, max_values, max_bytes, target_counts, target_sizes):
    """Splits byte strings into chunks of a power of two of values; returns the number of chunks.

    A chunk has as many values as fit into `max_bytes`, including offsets, at most `max_values`. Only the last one may
    have a single value (the logarithm 0 is reserved for it) or not a power of two. `target_sizes` are rounded up to a
    multiple of the offset size.
    """
    counts = pointer_i64(target_counts)
    sizes = pointer_i64(target_sizes)
    chunks = 0
    done = 0
    while done < num_values:
        base = offset_at(offsets, offset_bytes, done)
        left = num_values - done
        take = max_values
        if left < max_values:
            take = left
        size = (take + 1) * offset_bytes + offset_at(offsets, offset_bytes, done + take) - base
        if size > max_bytes:
            take = max_values
            while take > 2:
                take >>= 1
                if take <= left:
                    size = (take + 1) * offset_bytes + offset_at(offsets, offset_bytes, done + take) - base
                    if size <= max_bytes:
                        break
        take = min(take, left)
        size = (take + 1) * offset_bytes + offset_at(offsets, offset_bytes, done + take) - base
        counts[chunks] = take
        sizes[chunks] = (size + offset_bytes - 1) // offset_bytes * offset_bytes
        chunks += 1
        done += take
    return chunks


@kernel("void(int64, int64, int64, int64, int64, int64, int64, int64)")
def write_variable_chunks(offsets, data, offset_bytes, counts, sizes, num_chunks, fill, target):
    """Writes the chunks planned by `plan_variable_chunks` back to back, each padded with the byte `fill`."""
    count = pointer_i64(counts)
    size = pointer_i64(sizes)
    for i in range(np.uint64(num_chunks)):
        n = count[i]
        base = offset_at(offsets, offset_bytes, 0)
        num_bytes = offset_at(offsets, offset_bytes, n) - base
        header = (n + 1) * offset_bytes
        if offset_bytes == 4:
            _rebase_32(offsets, n, header - base, target)
        else:
            _rebase_64(offsets, 8, n, header - base, target)
        write_offset(target, offset_bytes, n, header + num_bytes)
        copy_chunk(target + header, data + base, num_bytes)
        for j in range(header + num_bytes, size[i]):
            pointer_u8(target)[j] = fill
        offsets += n * offset_bytes
        target += size[i]
