"""Bit strings: concatenation and splitting of slices of bits, LSB first.

Worked example: the 3 bits 101 and the 6 bits 110011, each written from its first bit, become the 9 bits 101110011;
as bytes: ``[0b101], [0b110011] -> [0b10011101, 0b1]``.

Addresses and counts are int64 and checked by the caller.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import (
    copy_bytes,
    inlined,
    kernel,
    pointer_i32,
    pointer_i64,
    pointer_u8,
    pointer_u16,
    pointer_u32,
    pointer_u64,
)


@inlined
def append_bits(target, filled, source, num_bits):
    """Copies bits from `source` behind the `filled` bits at `target`; trailing bits of the last byte are zero.

    `target` needs one byte more than the bits take.
    """
    if num_bits == 0:
        return
    num_bytes = (num_bits + 7) >> 3
    shift = np.uint64(filled & 7)
    first = pointer_u8(source)
    out = pointer_u8(target + (filled >> 3))
    last = np.uint64(num_bytes - 1)
    if shift == 0:
        copy_bytes(target + (filled >> 3), source, num_bytes)
    else:
        carry = np.uint64(out[0])
        for j in range(np.uint64(num_bytes)):
            carry |= np.uint64(first[j]) << shift
            out[j] = np.uint8(carry & np.uint64(0xFF))
            carry >>= np.uint64(8)
        last = np.uint64(((filled + num_bits + 7) >> 3) - (filled >> 3) - 1)
        if last >= np.uint64(num_bytes):
            out[last] = np.uint8(carry)
    if (filled + num_bits) & 7:
        out[last] = np.uint8(
            np.uint64(out[last]) & ((np.uint64(1) << np.uint64((filled + num_bits) & 7)) - np.uint64(1))
        )


@kernel("void(int64, int64, int64, int64, int64)")
def concatenate_bits(data, starts, num_bits, num_slices, target):
    """Copies `num_bits[i]` bits from byte `data + starts[i]` for every i, back to back, as `append_bits` does."""
    start = pointer_i64(starts)
    count = pointer_i64(num_bits)
    filled = np.int64(0)
    for i in range(np.uint64(num_slices)):
        append_bits(target, filled, data + start[i], count[i])
        filled += count[i]


@kernel("void(int64, int64, int64, int64)")
def split_bits(data, num_bits, num_slices, target):
    """The inverse of `concatenate_bits`: slices of `num_bits[i]` bits, back to back in `data`, are aligned to bytes.

    Trailing bits of a slice are zero.
    """
    count = pointer_i64(num_bits)
    source = pointer_u8(data)
    out = pointer_u8(target)
    bit = np.int64(0)
    filled = np.int64(0)
    for i in range(np.uint64(num_slices)):
        left = count[i]
        while left > 0:
            byte = bit >> 3
            shift = bit & 7
            value = np.int64(source[byte]) >> shift
            if left > 8 - shift:
                value |= np.int64(source[byte + 1]) << (8 - shift)
            if left < 8:
                value &= (1 << left) - 1
            out[filled] = np.uint8(value & 0xFF)
            filled += 1
            bit += min(left, 8)
            left -= 8


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def measure_flat(starts, sizes, num_values, num_slices, bits_per_value, most_values, lengths, totals):
    """Measures slices of values of equal width.

    Args:
        starts, sizes, num_values: int64[num_slices], the bytes of each slice, and its values.
        most_values: of a slice, if values have no bits.
        lengths: ``int64[2, num_slices]``: gets the bits and the bytes of the values of each slice.
        totals: int64[4]: gets the values and the bits of all slices, 1 if a slice but the last ends within a byte, and
            1 if the slices lie back to back and none of them does.

    Returns:
        0, or ``~i`` for the first slice that is too short for its values.
    """
    start = pointer_i64(starts)
    size = pointer_i64(sizes)
    count = pointer_i64(num_values)
    out = pointer_i64(lengths)
    total = pointer_i64(totals)
    values = np.int64(0)
    bits = np.int64(0)
    within_byte = np.int64(0)
    apart = np.int64(0)
    end = np.int64(0)
    for i in range(num_slices):
        most = size[i] * 8 // bits_per_value if bits_per_value else most_values
        if count[i] < 0 or count[i] > most:
            return ~np.int64(i)
        if i > 0:
            within_byte |= np.int64(bits & 7 != 0)
            apart |= np.int64(start[i] != end)
        out[i] = count[i] * bits_per_value
        out[num_slices + i] = (out[i] + 7) >> 3
        end = start[i] + out[num_slices + i]
        values += count[i]
        bits += out[i]
    total[0] = values
    total[1] = bits
    total[2] = within_byte
    total[3] = np.int64(within_byte == 0 and apart == 0)
    return 0


@kernel("void(int64, int64, int64, int64, int64, int64, int64)")
def mark_ranges(data, first_bit, num_bits, lengths, length_bytes, num_ranges, marks):
    """Sets `marks[i]` to 1 for each of some ranges of bits, which lie back to back, that has a bit which is set.

    Args:
        data: bits, of which `num_bits` from bit `first_bit` on count.
        first_bit: 0 to 7.
        lengths: int32[num_ranges] or int64[num_ranges], by `length_bytes`: how many bits each range has.
        marks: uint8[num_ranges].
    """
    source = pointer_u8(data)
    narrow = pointer_i32(lengths)
    wide = pointer_i64(lengths)
    mark = pointer_u8(marks)
    place = np.int64(-1)
    stop = np.int64(0)
    for byte in range(np.uint64((first_bit + num_bits + 7) >> 3)):
        value = np.int64(source[byte])
        if value == 0:
            continue
        start = (np.int64(byte) << 3) - first_bit
        for shift in range(8):
            bit = start + shift
            if (value >> shift) & 1 and bit >= 0 and bit < num_bits:
                while stop <= bit:
                    place += 1
                    if place == num_ranges:
                        return
                    stop += np.int64(narrow[place]) if length_bytes == 4 else wide[place]
                mark[place] = np.uint8(1)


@kernel("int64(int64, int64, int64, int64, int64)")
def ranges_of_bits(data, first_bit, num_bits, starts, stops):
    """Writes where ranges of bits that are set begin and end; returns their number.

    Args:
        data: bits, of which `num_bits` from bit `first_bit` on count.
        first_bit: 0 to 7.
        starts, stops: int64, counted from `first_bit`; each with room for one more than there are ranges.
    """
    source = pointer_u8(data)
    start = pointer_i64(starts)
    stop = pointer_i64(stops)
    begun = np.uint64(0)
    ended = np.uint64(0)
    before = np.uint64(0)
    end = first_bit + num_bits
    for byte in range(np.uint64((end + 7) >> 3)):
        first = np.int64(byte) << 3
        value = np.uint64(source[byte])
        if first < first_bit:
            value &= np.uint64(0xFF) << np.uint64(first_bit)
        if first + 8 > end:
            value &= np.uint64(0xFF) >> np.uint64(first + 8 - end)
        if value == before * np.uint64(0xFF):
            continue
        for shift in range(np.uint64(8)):
            bit = (value >> shift) & np.uint64(1)
            place = first + np.int64(shift) - first_bit
            start[begun] = place
            stop[ended] = place
            begun += bit & (before ^ np.uint64(1))
            ended += before & (bit ^ np.uint64(1))
            before = bit
    stop[ended] = num_bits
    return np.int64(begun)


@inlined
def num_ones(word):
    """The number of bits of a word of 64 bits that are set."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel("int64(int64, int64, int64, int64)")
def count_ranges(data, first_bit, num_bits, span):
    """The number of ranges of bits that are set.

    Args:
        data: bits, of which `num_bits` from bit `first_bit` (0 to 7) on count.
        span: int64[2], gets the first bit of the first range, and the end of the last one, counted from `first_bit`; if
            there are any.
    """
    words = pointer_u64(data)
    octets = pointer_u8(data)
    out = pointer_i64(span)
    end = first_bit + num_bits
    every = np.uint64(0xFFFFFFFFFFFFFFFF)
    before = np.uint64(0)
    total = np.int64(0)
    for number in range((end + 63) >> 6):
        place = np.int64(number) << 6
        if place + 64 <= end:
            word = words[number]
        else:
            word = np.uint64(0)
            for k in range((end - place + 7) >> 3):
                word |= np.uint64(octets[(place >> 3) + k]) << np.uint64(8 * k)
            word &= every >> np.uint64(place + 64 - end)
        if place == 0:
            word &= every << np.uint64(first_bit)
        if word != 0:
            if total == 0:
                out[0] = place + num_ones((word & (~word + np.uint64(1))) - np.uint64(1)) - first_bit
            below = word
            for shift in (1, 2, 4, 8, 16, 32):
                below |= below >> np.uint64(shift)
            out[1] = place + num_ones(below) - first_bit
        total += num_ones(word & ~(word << np.uint64(1) | before))
        before = word >> np.uint64(63)
    return total


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def bits_of_ranges(starts, stops, num_ranges, first, num_bits, target):
    """Sets the bits of ranges, which ascend and are counted from `first`.

    Args:
        target: ``num_bits // 64 + 1`` words of 64 bits, all clear.

    Returns:
        -1, or the index of the first range that is not within the bits.
    """
    start = pointer_i64(starts)
    stop = pointer_i64(stops)
    word = pointer_u64(target)
    one = np.uint64(1)
    for i in range(np.uint64(num_ranges)):
        begin = np.uint64(start[i] - first)
        end = np.uint64(stop[i] - first)
        if begin > end or end > np.uint64(num_bits):
            return np.int64(i)
        # Where a range begins or ends, bits change: short ranges in no order take no branches.
        word[begin >> np.uint64(6)] ^= one << (begin & np.uint64(63))
        word[end >> np.uint64(6)] ^= one << (end & np.uint64(63))
    before = np.uint64(0)
    for i in range(np.uint64((num_bits >> 6) + 1)):
        value = word[i]
        for shift in (1, 2, 4, 8, 16, 32):
            value ^= value << np.uint64(shift)
        value ^= before
        word[i] = value
        before = np.uint64(0) - (value >> np.uint64(63))
    return np.int64(-1)


@inlined
def _bits_at(data, bit, count):
    """`count` bits, 1 to 64, from bit `bit` on, in the lowest bits of a word."""
    first = data + (bit >> 3)
    shift = bit & 7
    num_bytes = (shift + count + 7) >> 3
    word = np.uint64(0)
    if num_bytes >= 8:
        word = pointer_u64(first)[0] >> np.uint64(shift)
        if num_bytes > 8:
            word |= np.uint64(pointer_u8(first)[8]) << np.uint64(64 - shift)
    else:
        for k in range(np.uint64(num_bytes)):
            word |= np.uint64(pointer_u8(first)[k]) << (np.uint64(8) * k)
        word >>= np.uint64(shift)
    return word & (np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(64 - count))


@inlined
def _packed(word, chosen):
    """The bits of `word` that are set in `chosen`, moved to the lowest places (Hacker's Delight, section 7-4)."""
    word &= chosen
    right = ~chosen << np.uint64(1)
    for step in range(np.uint64(6)):
        odd = right
        for shift in (1, 2, 4, 8, 16, 32):
            odd ^= odd << np.uint64(shift)
        distance = np.uint64(1) << step
        moved = odd & chosen
        chosen = (chosen ^ moved) | (moved >> distance)
        bits = word & moved
        word = (word ^ bits) | (bits >> distance)
        right &= ~odd
    return word


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def keep_bits(data, data_bit, keep, first_bit, num_values, target):
    """Copies the bits at `data` from bit `data_bit` on whose bit in `keep` is set, back to back; returns how many.

    Args:
        keep: bits, of which `num_values` from bit `first_bit` (0 to 7) on count.
        target: whole words of 64 bits, with room for one bit more than are kept.
    """
    out = pointer_u64(target)
    word = np.uint64(0)
    kept = np.int64(0)
    for first in range(0, num_values, 64):
        count = min(np.int64(64), num_values - first)
        chosen = _bits_at(keep, first_bit + first, count)
        if chosen == 0:
            continue
        bits = _packed(_bits_at(data, data_bit + first, count), chosen)
        used = kept & 63
        word |= bits << np.uint64(used)
        num_bits = num_ones(chosen)
        if used + num_bits >= 64:
            out[kept >> 6] = word
            word = bits >> np.uint64(64 - used) if used else np.uint64(0)
        kept += num_bits
    out[kept >> 6] = word
    return kept


@inlined
def _keep_words(source, keep, first_bit, num_values, target):
    bits = pointer_u8(keep)
    end = first_bit + num_values
    kept = np.uint64(0)
    for byte in range(np.uint64((end + 7) >> 3)):
        value = np.uint64(bits[byte])
        if value == 0:
            continue
        first = (np.int64(byte) << 3) - first_bit
        if first < 0 or first + 8 > num_values:
            for shift in range(8):
                place = first + shift
                if (value >> np.uint64(shift)) & np.uint64(1) and place >= 0 and place < num_values:
                    target[kept] = source[place]
                    kept += np.uint64(1)
            continue
        # Without a branch for each value: every second one would be predicted wrongly.
        for shift in range(np.uint64(8)):
            target[kept] = source[np.uint64(first) + shift]
            kept += (value >> shift) & np.uint64(1)
    return np.int64(kept)


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def keep_words(data, word_bytes, keep, first_bit, num_values, target):
    """Copies the values of 1, 2, 4 or 8 bytes whose bit is set, back to back; returns how many.

    Args:
        keep: bits, of which `num_values` from bit `first_bit` (0 to 7) on count.
        target: room for one value more than are kept.
    """
    if word_bytes == 1:
        return _keep_words(pointer_u8(data), keep, first_bit, num_values, pointer_u8(target))
    if word_bytes == 2:
        return _keep_words(pointer_u16(data), keep, first_bit, num_values, pointer_u16(target))
    if word_bytes == 4:
        return _keep_words(pointer_u32(data), keep, first_bit, num_values, pointer_u32(target))
    return _keep_words(pointer_u64(data), keep, first_bit, num_values, pointer_u64(target))
