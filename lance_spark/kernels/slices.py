"""Copies many slices of a buffer: back to back, from rows of equal size, and into such rows.

Addresses, lengths and counts are int64 and checked by the caller (`Chunks` checks its slices at construction).
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import (
    copy_bytes,
    inlined,
    kernel,
    pointer_i64,
    pointer_u8,
    pointer_u16,
    pointer_u32,
    pointer_u64,
)
from lance_spark.kernels.words import copy_chunk


@kernel("int64(int64, int64, int64, int64, int64)")
def outside(starts, lengths, counts, num_slices, size):
    """The index of the first slice that is not within `size` bytes or has a negative length or count; -1 if none."""
    start = pointer_i64(starts)
    length = pointer_i64(lengths)
    count = pointer_i64(counts)
    for i in range(num_slices):
        # Without a sum, which could overflow.
        if start[i] < 0 or length[i] < 0 or count[i] < 0 or start[i] > size or length[i] > size - start[i]:
            return i
    return -1


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def move_slices(starts, lengths, owners, num_slices, buffers, num_buffers, moved):
    """Moves slices of buffers to where the buffers begin.

    Args:
        starts, lengths, owners: int64[num_slices]; `owners` are indices of buffers.
        buffers: ``int64[2, num_buffers]``: where each begins, and its bytes.
        moved: int64[num_slices + 1], gets the starts, then the largest end.

    Returns:
        The bytes of all slices, or ``~i`` for the first slice that is not in its buffer.
    """
    start = pointer_i64(starts)
    length = pointer_i64(lengths)
    owner = pointer_i64(owners)
    buffer = pointer_i64(buffers)
    out = pointer_i64(moved)
    num_bytes = np.int64(0)
    end = np.int64(0)
    for i in range(num_slices):
        number = owner[i]
        if number < 0 or number >= num_buffers:
            return ~np.int64(i)
        size = buffer[num_buffers + number]
        if start[i] < 0 or length[i] < 0 or start[i] > size or length[i] > size - start[i]:
            return ~np.int64(i)
        out[i] = buffer[number] + start[i]
        num_bytes += length[i]
        end = max(end, out[i] + length[i])
    out[num_slices] = end
    return num_bytes


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def find_in_memory(starts, lengths, num_ranges, files, num_files, addresses):
    """Finds ranges of files that lie one behind the other, of each of which the end is in memory.

    Args:
        starts, lengths: int64[num_ranges], not negative.
        files: ``int64[4, num_files]``: where each file begins, ascending; its bytes; the first byte that is in memory,
            and its address.
        addresses: int64[num_ranges + 2], gets the address of each range, then the lowest one of a range that is not
            empty (also for empty ranges), and where the last one ends (0 and 0 if all are empty).

    Returns:
        The number of ranges, or the first one that is not in memory, or in no file.
    """
    start = pointer_i64(starts)
    length = pointer_i64(lengths)
    first = pointer_i64(files)
    size = pointer_i64(files + num_files * 8)
    held = pointer_i64(files + num_files * 16)
    memory = pointer_i64(files + num_files * 24)
    out = pointer_i64(addresses)
    low = np.int64(0)
    high = np.int64(0)
    file = np.int64(0)
    for i in range(num_ranges):
        if start[i] < first[file]:
            file = np.int64(0)
        # Ranges ascend, mostly.
        while file + 1 < num_files and first[file + 1] <= start[i]:
            file += 1
        at = start[i] - first[file]
        if at < held[file] or at > size[file] or length[i] > size[file] - at:
            return i
        out[i] = memory[file] + at - held[file]
        if length[i] > 0:
            low = out[i] if high == 0 else min(low, out[i])
            high = max(high, out[i] + length[i])
    for i in range(num_ranges):
        out[i] = out[i] if length[i] > 0 else low
    out[num_ranges] = low
    out[num_ranges + 1] = high
    return num_ranges


@kernel("boolean(int64, int64, int64)")
def are_apart(starts, stops, num_ranges):
    """Whether no range is empty, and each begins after the end of the one before."""
    start = pointer_i64(starts)
    stop = pointer_i64(stops)
    num_wrong = 0
    for i in range(num_ranges):
        num_wrong += start[i] >= stop[i] or (i > 0 and start[i] <= stop[i - 1])
    return num_wrong == 0


@kernel("int64(int64, int64, int64)")
def order_within(numbers, num_numbers, stop):
    """1 if each number is larger than the one before, 0 if not; -1 if one is not in [0, stop)."""
    number = pointer_i64(numbers)
    num_outside = 0
    num_wrong = 0
    for i in range(num_numbers):
        num_outside += number[i] < 0 or number[i] >= stop
        num_wrong += i > 0 and number[i] <= number[i - 1]
    return -1 if num_outside else np.int64(num_wrong == 0)


@kernel("void(int64, int64, int64, int64, int64)")
def live_rows(deleted, num_deleted, positions, num_positions, rows):
    """The rows that remain at some positions (int64) after `deleted` rows (int64, ascending) were removed."""
    removed = pointer_i64(deleted)
    position = pointer_i64(positions)
    row = pointer_i64(rows)
    for i in range(num_positions):
        # Before row removed[k] there are removed[k] - k others.
        low = np.int64(0)
        high = np.int64(num_deleted)
        while low < high:
            middle = (low + high) >> 1
            if removed[middle] - middle <= position[i]:
                low = middle + 1
            else:
                high = middle
        row[i] = position[i] + low


@kernel("int64(int64, int64, int64)")
def ranges_of_numbers(numbers, num_numbers, ranges):
    """Writes numbers as ranges, adjacent ones in one: ``int64[2, num_numbers]``, the starts and the stops.

    Returns:
        How many they are, or -1 if the numbers do not ascend.
    """
    number = pointer_i64(numbers)
    out = pointer_i64(ranges)
    count = np.int64(0)
    for i in range(num_numbers):
        if i > 0 and number[i] <= number[i - 1]:
            return -1
        if i == 0 or number[i] != number[i - 1] + 1:
            out[count] = number[i]
            count += 1
        out[num_numbers + count - 1] = number[i] + 1
    return count


@kernel("int64(int64, int64, int64, int64, int64)")
def numbers_of_ranges(starts, stops, num_ranges, numbers, num_numbers):
    """Writes all numbers of ranges, range after range; returns how many, or -1 if they are not `num_numbers`."""
    start = pointer_i64(starts)
    stop = pointer_i64(stops)
    out = pointer_i64(numbers)
    at = np.int64(0)
    for i in range(num_ranges):
        length = stop[i] - start[i]
        if length < 0 or length > num_numbers - at:
            return -1
        for j in range(np.uint64(length)):
            out[np.uint64(at) + j] = start[i] + np.int64(j)
        at += length
    return at if at == num_numbers else -1


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def plan_spans(starts, stops, pages, num_ranges, max_gap, table):
    """Joins ranges of pages, ascending by page and position, over gaps of up to `max_gap` bytes.

    `table` is ``int64[5, num_ranges]``: page, start and length of each span; then of each range its span and its start
    within that. Returns the number of spans.
    """
    start = pointer_i64(starts)
    stop = pointer_i64(stops)
    page = pointer_i64(pages)
    out = pointer_i64(table)
    span = np.int64(-1)
    for i in range(num_ranges):
        if i == 0 or page[i] != page[i - 1] or start[i] - stop[i - 1] > max_gap:
            span += 1
            out[span] = page[i]
            out[num_ranges + span] = start[i]
        first = out[num_ranges + span]
        out[2 * num_ranges + span] = stop[i] - first
        out[3 * num_ranges + i] = span
        out[4 * num_ranges + i] = start[i] - first
    return span + 1


@kernel("void(int64, int64, int64, int64, int64)")
def concatenate(data, starts, lengths, num_slices, target):
    """Copies `lengths[i]` bytes from `data + starts[i]` for every i, back to back."""
    start = pointer_i64(starts)
    length = pointer_i64(lengths)
    for i in range(np.uint64(num_slices)):
        copy_chunk(target, data + start[i], length[i])
        target += length[i]


@kernel("void(int64, int64, int64, int64, int64, int64)")
def scatter_slices(data, starts, lengths, num_slices, places, target):
    """Copies `lengths[i]` bytes from `data + starts[i]` to `target + places[i]` for every i."""
    start = pointer_i64(starts)
    length = pointer_i64(lengths)
    place = pointer_i64(places)
    for i in range(np.uint64(num_slices)):
        copy_bytes(target + place[i], data + start[i], length[i])


@inlined
def _copy_strided(source, source_stride, target, target_stride, length, num_rows):
    # For one-word rows a memcpy call per row costs more than the copy, so words have separate loops.
    if length == 1:
        for _ in range(num_rows):
            pointer_u8(target)[0] = pointer_u8(source)[0]
            source += source_stride
            target += target_stride
    elif length == 2:
        for _ in range(num_rows):
            pointer_u16(target)[0] = pointer_u16(source)[0]
            source += source_stride
            target += target_stride
    elif length == 4:
        for _ in range(num_rows):
            pointer_u32(target)[0] = pointer_u32(source)[0]
            source += source_stride
            target += target_stride
    elif length == 8:
        for _ in range(num_rows):
            pointer_u64(target)[0] = pointer_u64(source)[0]
            source += source_stride
            target += target_stride
    else:
        for _ in range(num_rows):
            copy_bytes(target, source, length)
            source += source_stride
            target += target_stride


@kernel("void(int64, int64, int64, int64, int64)")
def gather_rows(source, stride, length, num_rows, target):
    """Copies the first `length` bytes of each row of `stride` bytes, back to back."""
    _copy_strided(source, stride, target, length, length, num_rows)


@kernel("void(int64, int64, int64, int64, int64)")
def scatter_rows(source, stride, length, num_rows, target):
    """Copies values of `length` bytes, back to back in `source`, to the start of each row of `stride` bytes."""
    _copy_strided(source, length, target, stride, length, num_rows)
