"""Binary JSON (`expr/json_path/jsonb.py`) as JSON text, without spaces.

Addresses, lengths and counts are int64. Documents are written in two passes, because the text of a double is made in
Python: the first counts bytes and collects the doubles, the second writes. What is not exactly as writers make it
(damage, keys that do not ascend, integers of odd sizes, deep nesting) is left to the careful decoder in Python.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import copy_bytes, inlined, kernel, pointer_i64, pointer_u8

DEPTH = 4096
"""Containers in containers that are read here. The reference library (14.0.2) writes some thousands."""

FIELDS = 8
"""int64 of `stack` for each of them."""

_IS_OBJECT, _LEFT, _KEY, _KEY_BYTES, _VALUE, _VALUE_BYTES, _STOP, _IS_FIRST = range(8)
_QUOTE, _BACKSLASH, _ZERO, _MINUS = 34, 92, 48, 45


@inlined
def _u32(address):
    data = pointer_u8(address)
    return (
        (np.int64(data[0]) << np.int64(24))
        | (np.int64(data[1]) << np.int64(16))
        | (np.int64(data[2]) << np.int64(8))
        | np.int64(data[3])
    )


@inlined
def _put(target, size, byte):
    if target != 0:
        pointer_u8(target)[size] = np.uint8(byte)
    return size + 1


@inlined
def _put_word(target, size, a, b, c, d):
    if target != 0:
        out = pointer_u8(target + size)
        out[0] = np.uint8(a)
        out[1] = np.uint8(b)
        out[2] = np.uint8(c)
        out[3] = np.uint8(d)
    return size + 4


@kernel("int64(int64, int64, int64, int64)")
def _put_text(target, size, address, num_bytes):
    """A text in quotes, with escapes."""
    data = pointer_u8(address)
    size = _put(target, size, _QUOTE)
    for i in range(num_bytes):
        byte = np.int64(data[i])
        if byte >= 32 and byte != _QUOTE and byte != _BACKSLASH:
            size = _put(target, size, byte)
            continue
        size = _put(target, size, _BACKSLASH)
        if byte >= 32:
            size = _put(target, size, byte)
        elif byte == 8:
            size = _put(target, size, 98)
        elif byte == 9:
            size = _put(target, size, 116)
        elif byte == 10:
            size = _put(target, size, 110)
        elif byte == 12:
            size = _put(target, size, 102)
        elif byte == 13:
            size = _put(target, size, 114)
        else:
            low = byte & 15
            size = _put_word(target, size, 117, _ZERO, _ZERO, _ZERO + (byte >> 4))
            size = _put(target, size, _ZERO + low if low < 10 else 87 + low)
    return _put(target, size, _QUOTE)


@kernel("int64(int64, int64, uint64, boolean)")
def _put_whole(target, size, value, is_negative):
    """A whole number; `value` is its magnitude, uint64."""
    if is_negative:
        size = _put(target, size, _MINUS)
    digits = 1
    rest = value // np.uint64(10)
    while rest > np.uint64(0):
        digits += 1
        rest = rest // np.uint64(10)
    if target != 0:
        out = pointer_u8(target + size)
        rest = value
        for i in range(digits):
            quotient = rest // np.uint64(10)
            out[digits - 1 - i] = np.uint8(np.uint64(_ZERO) + (rest - quotient * np.uint64(10)))
            rest = quotient
    return size + digits


@kernel("UniTuple(int64, 2)(int64, int64, int64, int64, int64, int64, int64, int64)")
def _put_number(target, size, address, num_bytes, doubles, used, texts, ends):
    """(size, doubles used); size -1 for what is left to Python."""
    if num_bytes < 1:
        return np.int64(-1), used
    data = pointer_u8(address)
    tag = np.int64(data[0])
    width = num_bytes - 1
    if width == 0:
        if tag == 0:
            return _put(target, size, _ZERO), used
        if tag == 0x10 or tag == 0x20 or tag == 0x30:
            return _put_word(target, size, 110, 117, 108, 108), used
        return np.int64(-1), used
    if width != 1 and width != 2 and width != 4 and width != 8:
        return np.int64(-1), used
    bits = np.uint64(0)
    for i in range(width):
        bits = (bits << np.uint64(8)) | np.uint64(data[1 + i])
    if tag == 0x50:
        return _put_whole(target, size, bits, False), used
    if tag == 0x40:
        if bits >> np.uint64(8 * width - 1) == np.uint64(0):
            return _put_whole(target, size, bits, False), used
        magnitude = np.uint64(0) - bits
        if width < 8:
            magnitude = (np.uint64(1) << np.uint64(8 * width)) - bits
        return _put_whole(target, size, magnitude, True), used
    if tag != 0x60 or width != 8:
        return np.int64(-1), used
    if (bits >> np.uint64(52)) & np.uint64(0x7FF) == np.uint64(0x7FF):
        return _put_word(target, size, 110, 117, 108, 108), used
    if target == 0:
        pointer_i64(doubles)[used] = np.int64(bits)
        return size, used + 1
    text_ends = pointer_i64(ends)
    start = text_ends[used]
    length = text_ends[used + 1] - start
    copy_bytes(target + size, texts + start, length)
    return size + length, used + 1


@kernel("UniTuple(int64, 2)(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def _put_scalar(target, size, kind, address, num_bytes, doubles, used, texts, ends):
    if kind == 1:
        return _put_text(target, size, address, num_bytes), used
    if kind == 2:
        return _put_number(target, size, address, num_bytes, doubles, used, texts, ends)
    if kind == 0:
        return _put_word(target, size, 110, 117, 108, 108), used
    if kind == 4:
        return _put_word(target, size, 116, 114, 117, 101), used
    if kind == 3:
        return _put(target, _put_word(target, size, 102, 97, 108, 115), 101), used
    return np.int64(-1), used


@kernel("boolean(int64, int64, int64, int64)")
def _ascends(before, before_bytes, key, key_bytes):
    """Whether a key comes after another one."""
    one = pointer_u8(before)
    other = pointer_u8(key)
    common = min(before_bytes, key_bytes)
    for i in range(common):
        if one[i] != other[i]:
            return one[i] < other[i]
    return before_bytes < key_bytes


@kernel("boolean(int64, int64, int64)")
def _open(place, address, stop):
    """Fills the frame at `place` for the container at `address`, which ends at `stop`; False for what is left to
    Python.
    """
    frame = pointer_i64(place)
    if stop - address < 4:
        return False
    header = _u32(address)
    kind = header >> 29
    if kind != 2 and kind != 4:
        return False
    count = header & 0x1FFFFFFF
    is_object = kind == 2
    entries = count * 2 if is_object else count
    if entries * 4 > stop - address - 4:
        return False
    position = address + 4 + 4 * entries
    frame[_IS_OBJECT] = 1 if is_object else 0
    frame[_LEFT] = count
    frame[_KEY] = address + 4
    frame[_KEY_BYTES] = position
    before = np.int64(0)
    before_bytes = np.int64(0)
    if is_object:
        for i in range(count):
            num_bytes = _u32(address + 4 + 4 * i) & 0x0FFFFFFF
            if num_bytes > stop - position:
                return False
            if i > 0 and not _ascends(before, before_bytes, position, num_bytes):
                return False
            before = position
            before_bytes = num_bytes
            position += num_bytes
    frame[_VALUE] = address + 4 + 4 * (entries - count)
    frame[_VALUE_BYTES] = position
    frame[_STOP] = stop
    frame[_IS_FIRST] = 1
    return True


@kernel("UniTuple(int64, 2)(int64, int64, int64, int64, int64, int64, int64, int64)")
def _document(address, stop, stack, target, doubles, used, texts, ends):
    """(bytes of the text, doubles used after it); bytes -1 for what is left to Python. Without `target` nothing is
    written, and doubles are collected; they do not count in the bytes then.
    """
    size = np.int64(0)
    if stop - address < 4:
        return np.int64(-1), used
    if _u32(address) >> 29 == 1:
        if stop - address < 8:
            return np.int64(-1), used
        entry = _u32(address + 4)
        num_bytes = entry & 0x0FFFFFFF
        if num_bytes > stop - address - 8:
            return np.int64(-1), used
        return _put_scalar(target, size, entry >> 28, address + 8, num_bytes, doubles, used, texts, ends)
    depth = np.int64(0)
    if not _open(stack, address, stop):
        return np.int64(-1), used
    frame = pointer_i64(stack)
    size = _put(target, size, 123 if frame[_IS_OBJECT] == 1 else 91)
    while True:
        frame = pointer_i64(stack + depth * (8 * FIELDS))
        if frame[_LEFT] == 0:
            size = _put(target, size, 125 if frame[_IS_OBJECT] == 1 else 93)
            if depth == 0:
                return size, used
            depth -= 1
            continue
        frame[_LEFT] -= 1
        if frame[_IS_FIRST] == 0:
            size = _put(target, size, 44)
        frame[_IS_FIRST] = 0
        if frame[_IS_OBJECT] == 1:
            key_bytes = _u32(frame[_KEY]) & 0x0FFFFFFF
            size = _put_text(target, size, frame[_KEY_BYTES], key_bytes)
            size = _put(target, size, 58)
            frame[_KEY] += 4
            frame[_KEY_BYTES] += key_bytes
        entry = _u32(frame[_VALUE])
        num_bytes = entry & 0x0FFFFFFF
        value = frame[_VALUE_BYTES]
        if num_bytes > frame[_STOP] - value:
            return np.int64(-1), used
        frame[_VALUE] += 4
        frame[_VALUE_BYTES] += num_bytes
        if entry >> 28 == 5:
            depth += 1
            if depth == DEPTH:
                return np.int64(-1), used
            if not _open(stack + depth * (8 * FIELDS), value, value + num_bytes):
                return np.int64(-1), used
            inner = pointer_i64(stack + depth * (8 * FIELDS))
            size = _put(target, size, 123 if inner[_IS_OBJECT] == 1 else 91)
        else:
            size, used = _put_scalar(target, size, entry >> 28, value, num_bytes, doubles, used, texts, ends)
            if size < 0:
                return size, used


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def measure(data, offsets, valid, num_rows, stack, sizes, used_before, doubles):
    """The bytes of the text of each document, without its doubles.

    Args:
        data, offsets, valid: address; address of int64[num_rows + 1]; address of bool[num_rows], False for a null.
        stack: address of int64[DEPTH * FIELDS], to work in.
        sizes: address of int64[num_rows] for the results.
        used_before: address of int64[num_rows + 1] for the number of doubles before each document.
        doubles: address of float64[n] for the doubles; n is at least a ninth of the bytes.

    Returns:
        0, or -1 if a document is left to Python.
    """
    ends = pointer_i64(offsets)
    used = np.int64(0)
    for row in range(num_rows):
        pointer_i64(used_before)[row] = used
        size = np.int64(0)
        if pointer_u8(valid)[row] != 0:
            size, used = _document(data + ends[row], data + ends[row + 1], stack, 0, doubles, used, 0, 0)
            if size < 0:
                return np.int64(-1)
        pointer_i64(sizes)[row] = size
    pointer_i64(used_before)[num_rows] = used
    return np.int64(0)


@kernel("void(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def write(data, offsets, valid, num_rows, stack, texts, text_ends, places, target):
    """Writes the texts of documents that `measure` has accepted.

    Args:
        texts, text_ends: the texts of all doubles after each other, and int64[doubles + 1] where each begins.
        places: address of int64[num_rows], where in `target` each document begins.
        Others as in `measure`.
    """
    ends = pointer_i64(offsets)
    used = np.int64(0)
    for row in range(num_rows):
        if pointer_u8(valid)[row] != 0:
            place = target + pointer_i64(places)[row]
            _, used = _document(data + ends[row], data + ends[row + 1], stack, place, 0, used, texts, text_ends)
