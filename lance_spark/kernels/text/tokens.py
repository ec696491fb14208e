"""Cutting UTF-8 text into tokens, and numbering distinct tokens."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_i32, pointer_i64, pointer_u8


@inlined
def decode_character(data, place, stop):
    """(code point, bytes) at `place`; a byte that starts no character is (U+FFFD, 1)."""
    first = np.int64(data[place])
    if first < 0x80:
        return first, 1
    size = 0
    code = np.int64(0)
    if 0xC2 <= first < 0xE0:
        size, code = 2, first & 0x1F
    elif 0xE0 <= first < 0xF0:
        size, code = 3, first & 0x0F
    elif 0xF0 <= first < 0xF5:
        size, code = 4, first & 0x07
    if size == 0 or place + size > stop:
        return np.int64(0xFFFD), 1
    for i in range(1, size):
        byte = np.int64(data[place + i])
        if byte & 0xC0 != 0x80:
            return np.int64(0xFFFD), 1
        code = code << 6 | byte & 0x3F
    if code > 0x10FFFF:
        return np.int64(0xFFFD), 1
    return code, size


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def split_words(data_at, num_bytes, offsets_at, num_texts, classes_at, starts_at, lengths_at, counts_at, capacity):
    """Cuts each text into maximal runs of word characters.

    Args:
        data_at, num_bytes: the UTF-8 bytes of all texts.
        offsets_at: i64[num_texts + 1], where texts start and end in the data.
        classes_at: u8[0x110000], 1 for word characters.
        starts_at, lengths_at: i64[capacity] and i32[capacity], filled with the tokens.
        counts_at: i64[num_texts], filled with the number of tokens of each text.

    Returns:
        The number of tokens; -1: an offset is outside of the data, -2: more tokens than `capacity`.
    """
    data = pointer_u8(data_at)
    offsets = pointer_i64(offsets_at)
    classes = pointer_u8(classes_at)
    starts = pointer_i64(starts_at)
    lengths = pointer_i32(lengths_at)
    counts = pointer_i64(counts_at)
    found = 0
    for text in range(num_texts):
        place = offsets[text]
        stop = offsets[text + 1]
        if place < 0 or stop < place or stop > num_bytes:
            return -1
        before = found
        begin = np.int64(-1)
        while place < stop:
            code, size = decode_character(data, place, stop)
            if classes[code] != 0:
                if begin < 0:
                    begin = place
            elif begin >= 0:
                if found >= capacity:
                    return -2
                starts[found] = begin
                lengths[found] = place - begin
                found += 1
                begin = np.int64(-1)
            place += size
        if begin >= 0:
            if found >= capacity:
                return -2
            starts[found] = begin
            lengths[found] = stop - begin
            found += 1
        counts[text] = found - before
    return found


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def split_ngrams(
    data_at,
    num_bytes,
    offsets_at,
    num_texts,
    shortest,
    longest,
    prefix_only,
    starts_at,
    lengths_at,
    counts_at,
    capacity,
):
    """Cuts each text into windows of `shortest` to `longest` characters; arguments and result as `split_words`.

    Args:
        prefix_only: 1 for the windows at the start of each text only.
    """
    data = pointer_u8(data_at)
    offsets = pointer_i64(offsets_at)
    starts = pointer_i64(starts_at)
    lengths = pointer_i32(lengths_at)
    counts = pointer_i64(counts_at)
    found = 0
    for text in range(num_texts):
        place = offsets[text]
        stop = offsets[text + 1]
        if place < 0 or stop < place or stop > num_bytes:
            return -1
        before = found
        while place < stop:
            end = place
            characters = 0
            while end < stop and characters < longest:
                end += decode_character(data, end, stop)[1]
                characters += 1
                if characters >= shortest:
                    if found >= capacity:
                        return -2
                    starts[found] = place
                    lengths[found] = end - place
                    found += 1
            if prefix_only == 1:
                break
            place += decode_character(data, place, stop)[1]
        counts[text] = found - before
    return found


@inlined
def _hash(data, start, length):
    value = np.uint64(0xCBF29CE484222325)
    for i in range(start, start + length):
        value = (value ^ np.uint64(data[i])) * np.uint64(0x100000001B3)
    return value ^ (value >> np.uint64(29))


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def number_tokens(
    data_at,
    num_bytes,
    starts_at,
    lengths_at,
    num_tokens,
    slots_at,
    num_slots,
    arena_at,
    arena_size,
    ends_at,
    known,
    out_at,
):
    """Replaces tokens by numbers; equal tokens have the same number, new ones get the next number.

    Args:
        data_at, num_bytes: the bytes that hold the tokens.
        starts_at, lengths_at: i64 and i32[num_tokens], the tokens.
        slots_at: i32[num_slots], a hash table of numbers, -1 for empty slots. `num_slots` is a power of two.
        arena_at: u8[arena_size], the bytes of the known tokens one after the other.
        ends_at: i64, where each known token ends in the arena; has room for `num_slots` / 2 tokens.
        known: how many tokens are known.
        out_at: i32[num_tokens], filled with the numbers.

    Returns:
        The number of known tokens afterwards; -1: a token is outside of the data, -2: no room.
    """
    data = pointer_u8(data_at)
    starts = pointer_i64(starts_at)
    lengths = pointer_i32(lengths_at)
    slots = pointer_i32(slots_at)
    arena = pointer_u8(arena_at)
    ends = pointer_i64(ends_at)
    out = pointer_i32(out_at)
    mask = np.uint64(num_slots - 1)
    used = np.int64(0)
    if known > 0:
        used = ends[known - 1]
    for token in range(num_tokens):
        start = starts[token]
        length = np.int64(lengths[token])
        if start < 0 or length < 0 or start + length > num_bytes:
            return -1
        slot = _hash(data, start, length) & mask
        number = np.int64(slots[slot])
        while number >= 0:
            first = np.int64(0)
            if number > 0:
                first = ends[number - 1]
            if ends[number] - first == length:
                same = True
                for i in range(length):
                    if arena[first + i] != data[start + i]:
                        same = False
                        break
                if same:
                    break
            slot = (slot + np.uint64(1)) & mask
            number = np.int64(slots[slot])
        if number < 0:
            if 2 * (known + 1) > num_slots or used + length > arena_size:
                return -2
            for i in range(length):
                arena[used + i] = data[start + i]
            used += length
            ends[known] = used
            slots[slot] = known
            number = known
            known += 1
        out[token] = number
    return known


@kernel("int64(int64, int64, int64, int64, int64)")
def fill_slots(arena_at, ends_at, known, slots_at, num_slots):
    """Fills an empty hash table (all -1) of `number_tokens` with its known tokens; always 0."""
    arena = pointer_u8(arena_at)
    ends = pointer_i64(ends_at)
    slots = pointer_i32(slots_at)
    mask = np.uint64(num_slots - 1)
    first = np.int64(0)
    for number in range(known):
        slot = _hash(arena, first, ends[number] - first) & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = number
        first = ends[number]
    return 0
