"""Run length encoding (`lance.encodings21.Rle`): a value of 8, 16, 32 or 64 bits per run, and its length as a byte.

Longer runs are split into runs of at most 255. Worked example::

    values 7, 7, 7, 2   ->   run values 7, 2 and lengths 03 01

Addresses, lengths and counts are int64. A negative result is ``~i``, where i is the first chunk whose run lengths do
not add up to its number of values or whose number of run values is wrong; the output is then undefined.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_i64, pointer_u8, pointer_u16, pointer_u32, pointer_u64
from lance_spark.kernels.words import read_word, write_word

MAX_RUN = 255
"""A run length is one byte."""

SLACK_BYTES = 16
"""Bytes that `decode_runs` may write after the last value."""


@inlined
def _decode_chunk(values, lengths, num_runs, word_bytes, num_values, target):
    """Returns the number of values of the runs, without writing more than `num_values` and the slack."""
    length = pointer_u8(lengths)
    repeated = np.uint64(1)
    if word_bytes == 1:
        repeated = np.uint64(0x0101010101010101)
    elif word_bytes == 2:
        repeated = np.uint64(0x0001000100010001)
    elif word_bytes == 4:
        repeated = np.uint64(0x0000000100000001)
    done = np.int64(0)
    for run in range(np.uint64(num_runs)):
        word = read_word(values + np.int64(run) * word_bytes, word_bytes) * repeated
        count = np.int64(length[run])
        done += count
        if done > num_values:
            return done
        stop = target + count * word_bytes
        at = target
        # Words are written two at a time, beyond the end of the run: the next run overwrites the excess.
        while at < stop:
            pointer_u64(at)[0] = word
            pointer_u64(at)[1] = word
            at += 16
        target = stop
    return done


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def decode_runs(
    values, value_starts, value_sizes, lengths, length_starts, length_sizes, num_values, num_chunks, word_bytes, target
):
    """Writes the values of all runs of all chunks back to back.

    `target` needs room for all values and `SLACK_BYTES` more.
    """
    value_start = pointer_i64(value_starts)
    value_size = pointer_i64(value_sizes)
    length_start = pointer_i64(length_starts)
    num_runs = pointer_i64(length_sizes)
    count = pointer_i64(num_values)
    for i in range(np.uint64(num_chunks)):
        if value_size[i] < num_runs[i] * word_bytes:
            return ~np.int64(i)
        done = _decode_chunk(
            values + value_start[i], lengths + length_start[i], num_runs[i], word_bytes, count[i], target
        )
        if done != count[i]:
            return ~np.int64(i)
        target += done * word_bytes
    return 0


@inlined
def _changes(source, num_values, word_bytes):
    changes = 0
    if word_bytes == 1:
        bytes_ = pointer_u8(source)
        for i in range(np.uint64(1), np.uint64(num_values)):
            changes += bytes_[i] != bytes_[i - np.uint64(1)]
    elif word_bytes == 2:
        halves = pointer_u16(source)
        for i in range(np.uint64(1), np.uint64(num_values)):
            changes += halves[i] != halves[i - np.uint64(1)]
    elif word_bytes == 4:
        words = pointer_u32(source)
        for i in range(np.uint64(1), np.uint64(num_values)):
            changes += words[i] != words[i - np.uint64(1)]
    else:
        longs = pointer_u64(source)
        for i in range(np.uint64(1), np.uint64(num_values)):
            changes += longs[i] != longs[i - np.uint64(1)]
    return changes


@kernel("void(int64, int64, int64, int64, int64)")
def bound_runs(source, num_values, num_chunks, word_bytes, target):
    """Writes an upper bound of the number of runs of each chunk of num_values[i] values."""
    count = pointer_i64(num_values)
    bound = pointer_i64(target)
    for i in range(np.uint64(num_chunks)):
        bound[i] = min(count[i], 1 + _changes(source, count[i], word_bytes) + count[i] // MAX_RUN)
        source += count[i] * word_bytes


@kernel("void(int64, int64, int64, int64, int64, int64, int64, int64)")
def encode_runs(source, num_values, num_chunks, word_bytes, places, values, lengths, target_runs):
    """Writes the runs of chunk i from index `places[i]` in `values` and `lengths`, and their number."""
    count = pointer_i64(num_values)
    place = pointer_i64(places)
    runs = pointer_i64(target_runs)
    length = pointer_u8(lengths)
    for i in range(np.uint64(num_chunks)):
        run = place[i]
        at = 0
        while at < count[i]:
            word = read_word(source + at * word_bytes, word_bytes)
            stop = min(at + MAX_RUN, count[i])
            following = at + 1
            while following < stop and read_word(source + following * word_bytes, word_bytes) == word:
                following += 1
            write_word(values + run * word_bytes, word_bytes, word)
            length[run] = following - at
            run += 1
            at = following
        runs[i] = run - place[i]
        source += count[i] * word_bytes
