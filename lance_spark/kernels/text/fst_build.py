"""Building a finite state transducer of sorted keys: a trie whose leaves are transitions with the key's value."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_i64, pointer_u8

_RECORD = 3 + 3 * 256
"""Numbers of an open node: transitions, is final, value; then input, output and target of each transition."""


@inlined
def _size(value):
    size = 1
    while value >> (8 * size) != 0:
        size += 1
    return size


@inlined
def _put(out, place, value, size):
    for i in range(size):
        out[place + i] = value >> (8 * i) & 0xFF
    return place + size


@inlined
def _write_node(node, nodes, common, out, place):
    """Writes the node at `nodes[node:]`; returns the place after its last byte."""
    count = nodes[node]
    final = nodes[node + 1]
    value = nodes[node + 2]
    low = place
    if count == 1 and final == 0:
        byte, output, target = nodes[node + 3], nodes[node + 4], nodes[node + 5]
        number = np.int64(common[byte])
        if output == 0 and target == place - 1 and target != 0:
            if number == 0:
                out[place] = byte
                place += 1
            out[place] = 0xC0 | number
            return place + 1
        delta = low - target if target != 0 else np.int64(0)
        delta_size = _size(delta)
        output_size = _size(output) if output > 0 else 0
        place = _put(out, place, output, output_size)
        place = _put(out, place, delta, delta_size)
        out[place] = delta_size << 4 | output_size
        place += 1
        if number == 0:
            out[place] = byte
            place += 1
        out[place] = 0x80 | number
        return place + 1
    delta_size = 1 if count > 0 else 0
    output_size = _size(value) if final == 1 and value > 0 else 0
    for i in range(count):
        target = nodes[node + 5 + 3 * i]
        if target != 0:
            delta_size = max(delta_size, _size(low - target))
        if nodes[node + 4 + 3 * i] > 0:
            output_size = max(output_size, _size(nodes[node + 4 + 3 * i]))
    if final == 1:
        place = _put(out, place, value, output_size)
    for i in range(count - 1, -1, -1):
        place = _put(out, place, nodes[node + 4 + 3 * i], output_size)
    for i in range(count - 1, -1, -1):
        target = nodes[node + 5 + 3 * i]
        place = _put(out, place, low - target if target != 0 else np.int64(0), delta_size)
    for i in range(count - 1, -1, -1):
        out[place] = nodes[node + 3 + 3 * i]
        place += 1
    if count > 32:
        for i in range(256):
            out[place + i] = 255
        for i in range(count):
            out[place + nodes[node + 3 + 3 * i]] = i
        place += 256
    out[place] = delta_size << 4 | output_size
    place += 1
    state = count
    if count == 0 or count > 63:
        out[place] = 1 if count == 256 else count
        place += 1
        state = np.int64(0)
    out[place] = final << 6 | state
    return place + 1


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def build_fst(arena_at, ends_at, values_at, num_keys, common_at, nodes_at, out_at, out_size):
    """Writes the transducer of some keys, without the checksum at its end.

    Args:
        arena_at: u8, the keys one after the other, ascending and distinct.
        ends_at: i64[num_keys], where each key ends.
        values_at: i64[num_keys], their values.
        common_at: u8[256], the number of a byte among the common ones, 0 for others.
        nodes_at: i64[771 * (longest key + 1)], scratch.
        out_at, out_size: u8[out_size], filled.

    Returns:
        The number of bytes; -1: there is no room.
    """
    arena = pointer_u8(arena_at)
    ends = pointer_i64(ends_at)
    values = pointer_i64(values_at)
    common = pointer_u8(common_at)
    nodes = pointer_i64(nodes_at)
    out = pointer_u8(out_at)
    if out_size < 64:
        return -1
    _put(out, 0, 3, 8)
    _put(out, 8, 0, 8)
    place = np.int64(16)
    nodes[0] = 0
    nodes[1] = 0
    nodes[2] = 0
    depth = np.int64(0)
    start = np.int64(0)
    before = np.int64(0)
    for key in range(num_keys + 1):
        stop = ends[key] if key < num_keys else start
        shared = np.int64(0)
        if key > 0 and key < num_keys:
            while shared < depth and start + shared < stop and arena[before + shared] == arena[start + shared]:
                shared += 1
        while depth > shared:
            node = depth * _RECORD
            above = node - _RECORD
            last = above + 3 * nodes[above]
            if nodes[node] == 0:
                nodes[last + 1] = nodes[node + 2]
                nodes[last + 2] = 0
            else:
                if place + 18 * nodes[node] + 320 > out_size:
                    return -1
                place = _write_node(node, nodes, common, out, place)
                nodes[last + 1] = 0
                nodes[last + 2] = place - 1
            depth -= 1
        if key == num_keys:
            break
        for i in range(start + shared, stop):
            node = depth * _RECORD
            transition = nodes[node]
            nodes[node] = transition + 1
            nodes[node + 3 + 3 * transition] = arena[i]
            depth += 1
            nodes[depth * _RECORD] = 0
            nodes[depth * _RECORD + 1] = 0
            nodes[depth * _RECORD + 2] = 0
        nodes[depth * _RECORD + 1] = 1
        nodes[depth * _RECORD + 2] = values[key]
        before = start
        start = stop
    if place + 18 * nodes[0] + 320 > out_size:
        return -1
    place = _write_node(0, nodes, common, out, place)
    root = place - 1
    place = _put(out, place, num_keys, 8)
    return _put(out, place, root, 8)
