"""Murmur3, x86 variant of 32 bits, seed 0, over rows of bytes (Lance partitioning specification, Hash Functions).

The bytes of a row are those of all its columns back to back, without nulls. A table of `NUM_WORDS` words per column
describes their location:

    [data, offsets, stride, lengths, validity, bit_offset]

`data` is an address. With `offsets` (address of int64[num_rows + 1]) row i is `data + offsets[i]` up to
`data + offsets[i + 1]`; without (0) it is at `data + i * stride`, and `lengths` (address of int64[num_rows]) or,
without, `stride` is its length. `validity` is the address of a bitmap whose bit `bit_offset + i` is set if row i is
not null, 0 for no nulls. The caller checks the offsets.

Worked example: the value 34 as 8 little-endian bytes hashes to 2017239379, as in Iceberg's table of bucket hashes.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_i32, pointer_i64, pointer_u8, pointer_u32, pointer_u64

NUM_WORDS = 6
"""Words that describe one column."""


@inlined
def _mixed(hash_, word):
    word = (word * np.uint64(0xCC9E2D51)) & np.uint64(0xFFFFFFFF)
    word = ((word << np.uint64(15)) | (word >> np.uint64(17))) & np.uint64(0xFFFFFFFF)
    hash_ ^= (word * np.uint64(0x1B873593)) & np.uint64(0xFFFFFFFF)
    hash_ = ((hash_ << np.uint64(13)) | (hash_ >> np.uint64(19))) & np.uint64(0xFFFFFFFF)
    return (hash_ * np.uint64(5) + np.uint64(0xE6546B64)) & np.uint64(0xFFFFFFFF)


@inlined
def _finished(hash_, tail, num_bytes):
    if num_bytes & np.uint64(3):
        tail = (tail * np.uint64(0xCC9E2D51)) & np.uint64(0xFFFFFFFF)
        tail = ((tail << np.uint64(15)) | (tail >> np.uint64(17))) & np.uint64(0xFFFFFFFF)
        hash_ ^= (tail * np.uint64(0x1B873593)) & np.uint64(0xFFFFFFFF)
    hash_ ^= num_bytes & np.uint64(0xFFFFFFFF)
    hash_ ^= hash_ >> np.uint64(16)
    hash_ = (hash_ * np.uint64(0x85EBCA6B)) & np.uint64(0xFFFFFFFF)
    hash_ ^= hash_ >> np.uint64(13)
    hash_ = (hash_ * np.uint64(0xC2B2AE35)) & np.uint64(0xFFFFFFFF)
    return hash_ ^ (hash_ >> np.uint64(16))


@kernel("void(int64, int64, int64, int64, int64)")
def hash_rows(columns, num_columns, num_rows, hashes, valid):
    """Writes the signed hash of each row to `hashes` (int32), and to `valid` (bytes) 0 if all is null, else 1."""
    words = pointer_i64(columns)
    out = pointer_i32(hashes)
    out_valid = pointer_u8(valid)
    for row in range(num_rows):
        hash_ = np.uint64(0)
        # Bytes of an incomplete 4-byte word, lowest first.
        tail = np.uint64(0)
        num_bytes = np.uint64(0)
        any_valid = np.uint8(0)
        for column in range(num_columns):
            base = column * 6
            validity = words[base + 4]
            if validity != 0:
                bit = words[base + 5] + row
                if (pointer_u8(validity)[bit >> 3] >> np.uint8(bit & 7)) & 1 == 0:
                    continue
            any_valid = np.uint8(1)
            data = words[base]
            length = words[base + 2]
            if words[base + 1] != 0:
                offsets = pointer_i64(words[base + 1])
                data += offsets[row]
                length = offsets[row + 1] - offsets[row]
            else:
                data += row * words[base + 2]
                if words[base + 3] != 0:
                    length = pointer_i64(words[base + 3])[row]
            whole = pointer_u32(data)
            for i in range(np.uint64(length >> 2)):
                shift = (num_bytes & np.uint64(3)) << np.uint64(3)
                pending = tail | (np.uint64(whole[i]) << shift)
                hash_ = _mixed(hash_, pending & np.uint64(0xFFFFFFFF))
                tail = pending >> np.uint64(32)
                num_bytes += np.uint64(4)
            rest = pointer_u8(data)
            for i in range(np.uint64(length & ~3), np.uint64(length)):
                tail |= np.uint64(rest[i]) << ((num_bytes & np.uint64(3)) << np.uint64(3))
                num_bytes += np.uint64(1)
                if num_bytes & np.uint64(3) == np.uint64(0):
                    hash_ = _mixed(hash_, tail)
                    tail = np.uint64(0)
        out[row] = np.int32(np.uint32(_finished(hash_, tail, num_bytes)))
        out_valid[row] = any_valid


@kernel("void(int64, int64, int64, int64, int64, int64)")
def canonical_decimals(data, num_limbs, num_values, scale, target, lengths):
    """The unscaled numbers without trailing zeros of the fraction, in 8 little-endian bytes, or in full width.

    `data` and `target` have `num_limbs` (2 or 4) u64 words per value, lowest first, in two's complement; `lengths`
    (int64) receives the bytes of each value.
    """
    for row in range(num_values):
        source = pointer_u64(data + row * num_limbs * 8)
        out = pointer_u64(target + row * num_limbs * 8)
        is_negative = (source[num_limbs - 1] >> np.uint64(63)) != np.uint64(0)
        carry = np.uint64(1)
        is_zero = True
        for i in range(num_limbs):
            limb = source[i]
            if is_negative:
                limb = ~limb + carry
                carry = np.uint64(1) if carry != np.uint64(0) and limb == np.uint64(0) else np.uint64(0)
            out[i] = limb
            is_zero = is_zero and limb == np.uint64(0)
        digits = 0 if is_zero else scale
        while digits > 0:
            # Long division by 10 in halves of a limb: first only the remainder, then the quotient.
            remainder = np.uint64(0)
            for i in range(num_limbs - 1, -1, -1):
                high = (remainder << np.uint64(32)) | (out[i] >> np.uint64(32))
                low = ((high % np.uint64(10)) << np.uint64(32)) | (out[i] & np.uint64(0xFFFFFFFF))
                remainder = low % np.uint64(10)
            if remainder != np.uint64(0):
                break
            for i in range(num_limbs - 1, -1, -1):
                high = (remainder << np.uint64(32)) | (out[i] >> np.uint64(32))
                low = ((high % np.uint64(10)) << np.uint64(32)) | (out[i] & np.uint64(0xFFFFFFFF))
                out[i] = ((high // np.uint64(10)) << np.uint64(32)) | (low // np.uint64(10))
                remainder = low % np.uint64(10)
            digits -= 1
        carry = np.uint64(1)
        fits = True
        for i in range(num_limbs):
            if is_negative:
                out[i] = ~out[i] + carry
                carry = np.uint64(1) if carry != np.uint64(0) and out[i] == np.uint64(0) else np.uint64(0)
        sign = np.uint64(0) - (out[0] >> np.uint64(63))
        for i in range(1, num_limbs):
            fits = fits and out[i] == sign
        pointer_i64(lengths)[row] = 8 if fits else num_limbs * 8
