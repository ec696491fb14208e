"""Finds the members of variants at given paths, and writes variants that have only these.

A variant is a value and a dictionary of keys (`metadata`), in the encoding of Parquet
(https://github.com/apache/parquet-format/blob/master/VariantEncoding.md). Paths are a tree of nodes in depth-first
order: node 0 is the whole value, the others are members of their parents, by key or by position. Children are sorted:
keys by their UTF-16 code units, then positions.

Addresses, lengths and counts are int64. Values that break the encoding are left as they are.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import copy_bytes, inlined, kernel, pointer_i64, pointer_u8

WHOLE, OWN_KEYS, NEW_KEYS = 0, 1, 2
"""What becomes of a row: nothing; members with the keys of the row; members that need the keys of paths only."""

_SCALAR_BYTES = (1, 1, 1, 2, 3, 5, 9, 9, 6, 10, 18, 5, 9, 9, 5, 0, 0, 9, 9, 9, 17)
"""The size of a scalar with its header, by its type; 0 for binaries and long texts, which say theirs."""


@inlined
def _number(address, num_bytes):
    data = pointer_u8(address)
    value = np.int64(0)
    for i in range(num_bytes):
        value |= np.int64(data[i]) << np.int64(8 * i)
    return value


@inlined
def _put_number(address, num_bytes, value):
    data = pointer_u8(address)
    for i in range(num_bytes):
        data[i] = np.uint8((value >> np.int64(8 * i)) & 0xFF)


@inlined
def _num_bytes(value):
    if value < 1 << 8:
        return np.int64(1)
    if value < 1 << 16:
        return np.int64(2)
    return np.int64(3) if value < 1 << 24 else np.int64(4)


@inlined
def _kind(address):
    """0 for scalars, 1 for short texts, 2 for objects, 3 for arrays."""
    return np.int64(pointer_u8(address)[0]) & 3


@inlined
def _container(address, available):
    """(members, bytes of a key's number, of an offset, of header and count, of everything); -1 members: broken."""
    header = np.int64(pointer_u8(address)[0])
    is_object = header & 3 == 2
    flags = header >> 2
    offset_bytes = (flags & 3) + 1
    id_bytes = ((flags >> 2) & 3) + 1 if is_object else np.int64(0)
    count_bytes = np.int64(4) if (flags >> (4 if is_object else 2)) & 1 else np.int64(1)
    if 1 + count_bytes > available:
        return np.int64(-1), id_bytes, offset_bytes, count_bytes + 1, np.int64(-1)
    count = _number(address + 1, count_bytes)
    fixed = 1 + count_bytes + count * id_bytes + (count + 1) * offset_bytes
    if fixed > available:
        return np.int64(-1), id_bytes, offset_bytes, count_bytes + 1, np.int64(-1)
    size = fixed + _number(address + fixed - offset_bytes, offset_bytes)
    return count if size <= available else np.int64(-1), id_bytes, offset_bytes, count_bytes + 1, size


@inlined
def _size(address, available):
    """The number of bytes of the value at `address`; -1 if it is broken."""
    if available < 1:
        return np.int64(-1)
    header = np.int64(pointer_u8(address)[0])
    kind = header & 3
    size = np.int64(-1)
    if kind == 1:
        size = 1 + (header >> 2)
    elif kind >= 2:
        count, _, _, _, total = _container(address, available)
        size = total if count >= 0 else np.int64(-1)
    elif header >> 2 < len(_SCALAR_BYTES):
        size = np.int64(_SCALAR_BYTES[header >> 2])
        if size == 0:
            size = 5 + _number(address + 1, 4) if available >= 5 else np.int64(-1)
    return size if size <= available else np.int64(-1)


@inlined
def _has_key(metadata, num_bytes, key_id, key, key_bytes):
    """1 if a key of the dictionary is `key`, 0 if not, -1 if the dictionary is broken."""
    header = np.int64(pointer_u8(metadata)[0]) if num_bytes > 0 else np.int64(0)
    width = (header >> 6) + 1
    if header & 15 != 1 or 1 + width > num_bytes:
        return -1
    count = _number(metadata + 1, width)
    texts = 1 + (count + 2) * width
    if key_id >= count or texts > num_bytes:
        return -1
    start = _number(metadata + 1 + (1 + key_id) * width, width)
    stop = _number(metadata + 1 + (2 + key_id) * width, width)
    if start > stop or texts + stop > num_bytes:
        return -1
    if stop - start != key_bytes:
        return 0
    found = pointer_u8(metadata + texts + start)
    wanted = pointer_u8(key)
    for i in range(key_bytes):
        if found[i] != wanted[i]:
            return 0
    return 1


@inlined
def _member(value, available, metadata, metadata_bytes, is_key, key, key_bytes, position):
    """(offset, size, number of the key) of a member; offset -1: there is none, -2: the value is broken."""
    none = np.int64(-1)
    count, id_bytes, offset_bytes, ids, total = _container(value, available)
    if count < 0:
        return np.int64(-2), none, none
    place = none
    key_id = np.int64(0)
    if is_key:
        for i in range(count):
            key_id = _number(value + ids + i * id_bytes, id_bytes)
            same = _has_key(metadata, metadata_bytes, key_id, key, key_bytes)
            if same < 0:
                return np.int64(-2), none, none
            if same:
                place = i
                break
    elif position < count:
        place = position
    if place < 0:
        return none, none, none
    offsets = ids + count * id_bytes
    first = offsets + (count + 1) * offset_bytes + _number(value + offsets + place * offset_bytes, offset_bytes)
    size = _size(value + first, total - first)
    return (first if size >= 0 else np.int64(-2)), size, key_id


@inlined
def _find(value, value_bytes, metadata, metadata_bytes, nodes, num_nodes, keys, start, size, key_id):
    """Fills the place of each node, -1 where there is none. 0 if the row is broken, else 1."""
    start[0] = 0
    size[0] = _size(value, value_bytes)
    if size[0] < 0:
        return 0
    for node in range(1, num_nodes):
        parent = nodes[5 * node]
        is_key = nodes[5 * node + 1]
        start[node] = -1
        size[node] = 0
        if start[parent] >= 0 and _kind(value + start[parent]) == (2 if is_key else 3):
            at, length, number = _member(
                value + start[parent],
                size[parent],
                metadata,
                metadata_bytes,
                is_key,
                keys + nodes[5 * node + 2],
                nodes[5 * node + 3],
                nodes[5 * node + 2],
            )
            if at == -2:
                return 0
            if at >= 0:
                start[node] = start[parent] + at
                size[node] = length
                key_id[node] = number
    return 1


@inlined
def _is_end(nodes, num_nodes, node):
    """Whether a path ends here, so that the member is kept as it is."""
    return node + 1 == num_nodes or nodes[5 * (node + 1)] != node


@inlined
def _measure(value, nodes, num_nodes, start, size, key_id, new_size, payload, members, highest):
    """Fills the size of what is kept of each node, and of its members: bytes, count, highest key or position."""
    for node in range(num_nodes):
        payload[node] = 0
        members[node] = 0
        highest[node] = 0
    for step in range(num_nodes):
        node = num_nodes - 1 - step
        if start[node] < 0:
            continue
        kind = _kind(value + start[node])
        if _is_end(nodes, num_nodes, node):
            new_size[node] = size[node]
        elif kind < 2:
            new_size[node] = 1
        elif kind == 2:
            width = _num_bytes(payload[node])
            new_size[node] = 2 + members[node] * _num_bytes(highest[node]) + (members[node] + 1) * width + payload[node]
        else:
            count = highest[node] + 1 if members[node] else np.int64(0)
            filled = payload[node] + count - members[node]
            new_size[node] = 1 + (1 if count < 256 else 4) + (count + 1) * _num_bytes(filled) + filled
        if node > 0:
            parent = nodes[5 * node]
            payload[parent] += new_size[node]
            members[parent] += 1
            # Children come last to first: the highest position is the first seen, keys are compared.
            number = key_id[node] if nodes[5 * node + 1] else nodes[5 * node + 2]
            if number > highest[parent]:
                highest[parent] = number


@inlined
def _of_nodes(scratch, num_nodes):
    """Arrays with an entry for each node: start, size, key, new size, bytes, number and highest key of its members."""
    room = 8 * num_nodes
    return (
        pointer_i64(scratch),
        pointer_i64(scratch + room),
        pointer_i64(scratch + 2 * room),
        pointer_i64(scratch + 3 * room),
        pointer_i64(scratch + 4 * room),
        pointer_i64(scratch + 5 * room),
        pointer_i64(scratch + 6 * room),
    )


@kernel("void(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def measure_members(
    values, value_offsets, metadata, metadata_offsets, num_rows, nodes, num_nodes, keys, scratch, sizes, kinds
):
    """Fills for each row what becomes of it (`kinds`) and the size of its new value (`sizes`).

    Args:
        nodes: of each five int64: parent; 1 for a key, 0 for a position; first byte of the key, or the position; bytes
            of the key; number of the key among those of all paths.
        scratch: room for seven int64 of each node.
    """
    value_at = pointer_i64(value_offsets)
    metadata_at = pointer_i64(metadata_offsets)
    node = pointer_i64(nodes)
    new_sizes = pointer_i64(sizes)
    row_kinds = pointer_i64(kinds)
    start, size, key_id, new_size, payload, members, highest = _of_nodes(scratch, num_nodes)
    for row in range(num_rows):
        value, value_bytes = values + value_at[row], value_at[row + 1] - value_at[row]
        of_row, of_row_bytes = metadata + metadata_at[row], metadata_at[row + 1] - metadata_at[row]
        new_sizes[row] = value_bytes
        row_kinds[row] = WHOLE
        if not _find(value, value_bytes, of_row, of_row_bytes, node, num_nodes, keys, start, size, key_id):
            continue
        kind = NEW_KEYS
        for k in range(1, num_nodes):
            if start[k] >= 0 and _is_end(node, num_nodes, k) and _kind(value + start[k]) >= 2:
                kind = OWN_KEYS
        if kind == NEW_KEYS:
            for k in range(1, num_nodes):
                key_id[k] = node[5 * k + 4]
        _measure(value, node, num_nodes, start, size, key_id, new_size, payload, members, highest)
        if new_size[0] < value_bytes or kind == NEW_KEYS:
            row_kinds[row] = kind
            new_sizes[row] = new_size[0]


@inlined
def _write_container(value, target, is_object, nodes, num_nodes, parent, start, key_id, new_size, found, place):
    """Writes the header of what is kept of a container, and fills where its members go (`place`)."""
    payload, members, highest = found
    count = members if is_object else (highest + 1 if members else np.int64(0))
    filled = payload + count - members
    width = _num_bytes(filled)
    id_bytes = _num_bytes(highest) if is_object else np.int64(0)
    count_bytes = np.int64(1) if count < 256 else np.int64(4)
    large = np.int64(0) if count < 256 else np.int64(1)
    flags = (width - 1) | ((id_bytes - 1) << 2 | large << 4 if is_object else large << 2)
    pointer_u8(target)[0] = np.uint8((flags << 2) | (2 if is_object else 3))
    _put_number(target + 1, count_bytes, count)
    ids = target + 1 + count_bytes
    offsets = ids + count * id_bytes
    data = offsets + (count + 1) * width
    at = np.int64(0)
    written = np.int64(0)
    for node in range(parent + 1, num_nodes):
        if nodes[5 * node] != parent or start[node] < 0:
            continue
        if is_object:
            _put_number(ids + written * id_bytes, id_bytes, key_id[node])
        else:
            while written < nodes[5 * node + 2]:
                _put_number(offsets + written * width, width, at)
                pointer_u8(data + at)[0] = np.uint8(0)
                written += 1
                at += 1
        _put_number(offsets + written * width, width, at)
        place[node] = data + at
        written += 1
        at += new_size[node]
    _put_number(offsets + written * width, width, at)


@kernel("void(" + ", ".join(["int64"] * 16) + ")")
def write_members(
    values,
    value_offsets,
    metadata,
    metadata_offsets,
    num_rows,
    nodes,
    num_nodes,
    keys,
    scratch,
    kinds,
    new_metadata,
    new_metadata_bytes,
    target,
    target_offsets,
    metadata_target,
    metadata_target_offsets,
):
    """Writes the values and dictionaries that `measure_members` has measured.

    Args:
        scratch: room for eight int64 of each node.
        new_metadata: the dictionary of the keys of all paths.
    """
    value_at = pointer_i64(value_offsets)
    metadata_at = pointer_i64(metadata_offsets)
    target_at = pointer_i64(target_offsets)
    metadata_target_at = pointer_i64(metadata_target_offsets)
    node = pointer_i64(nodes)
    row_kinds = pointer_i64(kinds)
    start, size, key_id, new_size, payload, members, highest = _of_nodes(scratch, num_nodes)
    place = pointer_i64(scratch + 7 * 8 * num_nodes)
    for row in range(num_rows):
        value, value_bytes = values + value_at[row], value_at[row + 1] - value_at[row]
        of_row, of_row_bytes = metadata + metadata_at[row], metadata_at[row + 1] - metadata_at[row]
        if row_kinds[row] == NEW_KEYS:
            copy_bytes(metadata_target + metadata_target_at[row], new_metadata, new_metadata_bytes)
        else:
            copy_bytes(metadata_target + metadata_target_at[row], of_row, of_row_bytes)
        if row_kinds[row] == WHOLE:
            copy_bytes(target + target_at[row], value, value_bytes)
            continue
        _find(value, value_bytes, of_row, of_row_bytes, node, num_nodes, keys, start, size, key_id)
        if row_kinds[row] == NEW_KEYS:
            for k in range(1, num_nodes):
                key_id[k] = node[5 * k + 4]
        _measure(value, node, num_nodes, start, size, key_id, new_size, payload, members, highest)
        place[0] = target + target_at[row]
        for k in range(num_nodes):
            if start[k] < 0:
                continue
            kind = _kind(value + start[k])
            if _is_end(node, num_nodes, k):
                copy_bytes(place[k], value + start[k], size[k])
            elif kind < 2:
                pointer_u8(place[k])[0] = np.uint8(0)
            else:
                found = (payload[k], members[k], highest[k])
                _write_container(value, place[k], kind == 2, node, num_nodes, k, start, key_id, new_size, found, place)
