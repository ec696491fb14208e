"""Dictionaries of terms: decoding a finite state transducer, and terms within an edit distance."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_i32, pointer_i64, pointer_u8

_HEADER = 16
_FOOTER = 20


@inlined
def _number(data, place, size):
    value = np.int64(0)
    for i in range(size):
        value |= np.int64(data[place + i]) << (8 * i)
    return value


@inlined
def _node(data, node, stop):
    """(transitions, is final, lowest byte, input place, delta size, output size, common input, is next) of a node.

    Inputs, deltas and outputs of the transitions lie below the input place, in this order, the first one highest.
    -1 transitions: the node does not lie within the nodes.
    """
    none = (np.int64(-1), np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0))
    if node == 0:
        return np.int64(0), np.int64(1), np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    if node < 16 or node >= stop:
        return none
    state = np.int64(data[node])
    if state >= 0xC0:
        common = state & 0x3F
        low = node if common > 0 else node - 1
        if low < 17:
            return none
        return np.int64(1), np.int64(0), low, node, np.int64(0), np.int64(0), common, np.int64(1)
    place = node
    common = np.int64(0)
    count = np.int64(1)
    final = np.int64(0)
    index = np.int64(0)
    if state >= 0x80:
        common = state & 0x3F
        if common == 0:
            place -= 1
    else:
        final = state >> 6
        count = state & 0x3F
        if count == 0:
            place -= 1
            if place < 16:
                return none
            count = np.int64(data[place])
            if count == 1:
                count = np.int64(256)
        if count > 32:
            index = np.int64(256)
    place -= 1
    if place < 16:
        return none
    delta_size = np.int64(data[place]) >> 4
    output_size = np.int64(data[place]) & 15
    if delta_size > 8 or output_size > 8:
        return none
    inputs = place - index
    if state >= 0x80:
        low = place - delta_size - output_size
        return (count, final, low, place, delta_size, output_size, common, np.int64(0)) if low >= 16 else none
    low = inputs - count * (1 + delta_size + output_size)
    if final == 1:
        low -= output_size
    if low < 16:
        return none
    return count, final, low, inputs, delta_size, output_size, np.int64(-1), np.int64(0)


@inlined
def _transition(data, common_inputs, node, transition, count, low, inputs, delta_size, output_size, common, is_next):
    """(byte, target node, output) of a transition of a node, of which the rest is what `_node` returns."""
    if is_next == 1:
        byte = common_inputs[common] if common > 0 else data[node - 1]
        target = low - 1
        step = np.int64(0)
    elif common >= 0:
        byte = common_inputs[common] if common > 0 else data[node - 1]
        delta = _number(data, inputs - delta_size, delta_size)
        step = _number(data, inputs - delta_size - output_size, output_size)
        target = low - delta if delta > 0 else np.int64(0)
    else:
        byte = data[inputs - 1 - transition]
        place = inputs - count - (transition + 1) * delta_size
        delta = _number(data, place, delta_size)
        step = _number(data, inputs - count * (1 + delta_size) - (transition + 1) * output_size, output_size)
        target = low - delta if delta > 0 else np.int64(0)
    return byte, target, step


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def decode_fst(data_at, num_bytes, common_at, stack_at, depth, arena_at, arena_size, ends_at, values_at, num_keys):
    """Writes down the keys of a transducer, in ascending order, and their values.

    Args:
        data_at, num_bytes: the transducer with header and footer.
        common_at: u8[64], the common inputs by number.
        stack_at, depth: i64[4 * depth], scratch; keys are shorter than `depth` bytes.
        arena_at, arena_size: u8[arena_size], filled with the bytes of the keys.
        ends_at, values_at: i64[num_keys] each, filled: where each key ends, and its value.

    Returns:
        0; -1: not a transducer of these sizes.
    """
    data = pointer_u8(data_at)
    common_inputs = pointer_u8(common_at)
    stack = pointer_i64(stack_at)
    arena = pointer_u8(arena_at)
    ends = pointer_i64(ends_at)
    values = pointer_i64(values_at)
    stop = num_bytes - _FOOTER
    if stop < _HEADER or depth < 1:
        return -1
    # A level of the stack: node, next transition, sum of outputs, place of the key's last byte in the arena.
    stack[0] = _number(data, stop + 8, 8)
    stack[1] = -1
    stack[2] = 0
    level = 0
    found = 0
    used = np.int64(0)
    steps = np.int64(0)
    key_start = pointer_u8(stack_at + 24 * depth)
    while level >= 0:
        node = stack[3 * level]
        transition = stack[3 * level + 1]
        output = stack[3 * level + 2]
        count, final, low, inputs, delta_size, output_size, common, is_next = _node(data, node, stop)
        if count < 0:
            return -1
        if transition < 0:
            stack[3 * level + 1] = 0
            if final == 1:
                value = output
                if output_size > 0:
                    value += _number(data, low, output_size)
                if found >= num_keys or used + level > arena_size:
                    return -1
                for i in range(level):
                    arena[used + i] = key_start[i]
                used += level
                ends[found] = used
                values[found] = value
                found += 1
            continue
        if transition >= count:
            level -= 1
            continue
        stack[3 * level + 1] = transition + 1
        if level + 1 >= depth:
            return -1
        byte, target, step = _transition(
            data, common_inputs, node, transition, count, low, inputs, delta_size, output_size, common, is_next
        )
        # Nodes only refer to earlier ones, so a loop is impossible.
        # Each step of a valid transducer belongs to a key, so there are not more steps than bytes.
        steps += 1
        if target < 0 or target >= node or step < 0 or steps > arena_size:
            return -1
        key_start[level] = byte
        level += 1
        stack[3 * level] = target
        stack[3 * level + 1] = -1
        stack[3 * level + 2] = output + step
    return 0 if found == num_keys and used == arena_size else -1


@kernel("int64(int64, int64, int64, int64, int64)")
def value_in_fst(data_at, num_bytes, common_at, key_at, key_size):
    """The value of a key of a transducer.

    Args:
        data_at, num_bytes, common_at: as `decode_fst`.
        key_at, key_size: u8[key_size].

    Returns: the value; -1: no such key, -2: what was read is not of a transducer.
    """
    data = pointer_u8(data_at)
    common_inputs = pointer_u8(common_at)
    key = pointer_u8(key_at)
    stop = num_bytes - _FOOTER
    if stop < _HEADER:
        return -2
    node = _number(data, stop + 8, 8)
    value = np.int64(0)
    for place in range(key_size + 1):
        count, final, low, inputs, delta_size, output_size, common, is_next = _node(data, node, stop)
        if count < 0:
            return -2
        if place == key_size:
            if final != 1:
                return -1
            if output_size > 0:
                value += _number(data, low, output_size)
            return value if value >= 0 else -2
        found = np.int64(-1)
        for transition in range(count):
            byte, target, step = _transition(
                data, common_inputs, node, transition, count, low, inputs, delta_size, output_size, common, is_next
            )
            if byte == key[place]:
                found = target
                value += step
                break
        if found < 0:
            return -1
        if found >= node or value < 0:
            return -2
        node = found
    return -2


@kernel("int64(int64, int64, int64)")
def masked_crc32c(data_at, num_bytes, scratch_at):
    """The CRC-32C of some bytes, masked as transducers store it.

    Args:
        scratch_at: i64[8 * 256].
    """
    data = pointer_u8(data_at)
    # For each byte what it adds to the checksum if 0 to 7 other bytes follow.
    table = pointer_i64(scratch_at)
    for byte in range(256):
        crc = np.int64(byte)
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table[byte] = crc
    for place in range(256, 2048):
        before = table[place - 256]
        table[place] = before >> 8 ^ table[before & 0xFF]
    crc = np.int64(0xFFFFFFFF)
    whole = num_bytes // 8 * 8
    for place in range(0, whole, 8):
        mixed = np.int64(0)
        for i in range(4):
            mixed ^= table[(7 - i) * 256 + (np.int64(data[place + i]) ^ (crc >> (8 * i) & 0xFF))]
            mixed ^= table[(3 - i) * 256 + np.int64(data[place + 4 + i])]
        crc = mixed
    for place in range(whole, num_bytes):
        crc = crc >> 8 ^ table[(crc ^ np.int64(data[place])) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def terms_within(arena_at, ends_at, num_terms, word_at, length, distance, prefix, scratch_at, out_at):
    """Marks the terms whose Levenshtein distance to a word is small, counted in characters.

    Args:
        arena_at, ends_at, num_terms: the terms in UTF-8, and i64[num_terms], where they end.
        word_at, length: i32[length], the code points of the word.
        distance: the largest distance.
        prefix: how many characters at the start have to be equal.
        scratch_at: i32[2 * (length + 1)].
        out_at: u8[num_terms], filled with 0 or 1.

    Returns: the number of marked terms.
    """
    arena = pointer_u8(arena_at)
    ends = pointer_i64(ends_at)
    word = pointer_i32(word_at)
    rows = pointer_i32(scratch_at)
    out = pointer_u8(out_at)
    found = 0
    start = np.int64(0)
    for term in range(num_terms):
        stop = ends[term]
        place = start
        start = stop
        out[term] = 0
        if stop - place + distance < length or stop - place > 4 * (length + distance):
            continue
        for j in range(length + 1):
            rows[j] = j
        current = 0
        i = 0
        alive = True
        while place < stop:
            first = np.int64(arena[place])
            size = 1
            code = first
            if first >= 0xF0:
                size, code = 4, first & 0x07
            elif first >= 0xE0:
                size, code = 3, first & 0x0F
            elif first >= 0xC0:
                size, code = 2, first & 0x1F
            for k in range(1, min(size, stop - place)):
                code = code << 6 | np.int64(arena[place + k]) & 0x3F
            place += size
            if i < prefix and (i >= length or word[i] != code):
                alive = False
                break
            i += 1
            before = current * (length + 1)
            current = 1 - current
            after = current * (length + 1)
            rows[after] = i
            best = i
            for j in range(1, length + 1):
                cost = rows[before + j - 1] + (0 if word[j - 1] == code else 1)
                cost = min(cost, rows[before + j] + 1, rows[after + j - 1] + 1)
                rows[after + j] = cost
                best = min(best, cost)
            if best > distance:
                alive = False
                break
        if alive and i >= min(prefix, length) and rows[current * (length + 1) + length] <= distance:
            out[term] = 1
            found += 1
    return found


@kernel("int64(int64, int64, int64, int64, int64)")
def place_of_term(arena_at, ends_at, num_terms, word_at, length):
    """The place of a term among terms that ascend byte by byte; -1: it is not there.

    Args:
        arena_at, ends_at, num_terms: the terms in UTF-8, and i64[num_terms], where they end.
        word_at, length: u8[length], the term.
    """
    arena = pointer_u8(arena_at)
    ends = pointer_i64(ends_at)
    word = pointer_u8(word_at)
    low = np.int64(0)
    high = np.int64(num_terms)
    while low < high:
        middle = (low + high) // 2
        start = np.int64(0) if middle == 0 else ends[middle - 1]
        size = ends[middle] - start
        i = np.int64(0)
        while i < size and i < length and arena[start + i] == word[i]:
            i += 1
        if i == size and i == length:
            return middle
        if i < length and (i == size or arena[start + i] < word[i]):
            low = middle + 1
        else:
            high = middle
    return -1
