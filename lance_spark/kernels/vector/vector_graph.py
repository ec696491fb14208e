"""The search in a graph of neighbours (HNSW): from node to node towards the query.

A graph comes from a file, so each node, row and edge is checked before it is used.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import (
    Kernel,
    inlined,
    kernel,
    pointer_f32,
    pointer_i64,
    pointer_u8,
    pointer_u32,
    pointer_u64,
    prefetch,
)
from lance_spark.kernels.vector.distances import distances_f32
from lance_spark.kernels.vector.vector_codes import offer_row, put_in_order

SQUARED_L2, DOT, CODES_SQUARED_L2, CODES_DOT, CODEWORDS = range(5)
"""What nodes are: float32 vectors (compared by squared difference, or minus the product), bytes compared with a float32
query in the same ways, or numbers of codewords, one byte a sub-vector, into a table of 256 float32 each."""

_ERRORS = 3
"""How many times the largest error of the nodes that were compared the error of another one can be."""

_EDGES_AT_ONCE = 32
_LINE_BYTES = 64

_AHEAD_BYTES = 1536
"""About how many bytes of nodes are requested before they are compared. More of them wait for each other, and nothing
is compared meanwhile."""


def _node_distance(kind, nodes, width, query, node):
    wanted = pointer_f32(query)
    total = np.float32(0)
    start = node * width
    if kind == SQUARED_L2:
        values = pointer_f32(nodes)
        for j in range(width):
            difference = values[start + j] - wanted[j]
            total += difference * difference
    elif kind == DOT:
        values = pointer_f32(nodes)
        for j in range(width):
            total -= values[start + j] * wanted[j]
    elif kind == CODES_SQUARED_L2:
        codes = pointer_u8(nodes)
        for j in range(width):
            difference = np.float32(codes[start + j]) - wanted[j]
            total += difference * difference
    elif kind == CODES_DOT:
        codes = pointer_u8(nodes)
        for j in range(width):
            total -= np.float32(codes[start + j]) * wanted[j]
    else:
        codes = pointer_u8(nodes)
        for j in range(width):
            total += wanted[j * 256 + codes[start + j]]
    return total


_distance = Kernel(_node_distance, None, reassociate=True)


@inlined
def _push(keys, nodes, size, key, node, sign):
    """A heap with the least ``sign * key`` first; returns its new size."""
    place = size
    while place > 0:
        parent = (place - 1) // 2
        if not sign * keys[parent] > sign * key:
            break
        keys[place] = keys[parent]
        nodes[place] = nodes[parent]
        place = parent
    keys[place] = key
    nodes[place] = node
    return size + 1


@inlined
def _pop(keys, nodes, size, sign):
    """Removes the first entry of a heap; returns its new size."""
    size -= 1
    key = keys[size]
    node = nodes[size]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and sign * keys[child + 1] < sign * keys[child]:
            child += 1
        if not sign * keys[child] < sign * key:
            break
        keys[place] = keys[child]
        nodes[place] = nodes[child]
        place = child
    keys[place] = key
    nodes[place] = node
    return size


@inlined
def _row_of(ids, first, last, node):
    """The first row of [first, last) whose node is not below `node`; `last` if there is none. Ids ascend."""
    while first < last:
        middle = (first + last) // 2
        if ids[middle] < node:
            first = middle + 1
        else:
            last = middle
    return first


@inlined
def _descended(
    kind, nodes, width, query, num_nodes, node_ids, levels, num_levels, ends, targets, num_edges, node, best
):
    """(the node on level 0 that steps to nearer nodes of the upper levels lead to, its distance); -1 as a node if an
    edge or a row leaves the graph.
    """
    for upper in range(num_levels - 1):
        level = num_levels - 1 - upper
        first, last = levels[level], levels[level + 1]
        improved = True
        while improved:
            improved = False
            row = _row_of(node_ids, first, last, node)
            if row >= last or node_ids[row] != node:
                break
            start, stop = ends[row], ends[row + 1]
            if start < 0 or stop > num_edges:
                return np.int64(-1), best
            for edge in range(start, stop):
                target = np.int64(targets[edge])
                if target >= num_nodes:
                    return np.int64(-1), best
                distance = _distance(kind, nodes, width, query, target)
                if distance < best:
                    best = distance
                    node = target
                    improved = True
    return node, best


@inlined
def _ask_for_row(address, num_bytes):
    for place in range(0, num_bytes, _LINE_BYTES):
        prefetch(address + place)
    return 0


@inlined
def _unseen(targets, start, stop, num_nodes, seen, nodes, row_bytes, ahead, coming):
    """Puts the nodes that some edges lead to and that were not seen before into `coming`, asks for the values of the
    first `ahead`, and returns how many they are; -1 if an edge leaves the graph."""
    count = 0
    for edge in range(start, stop):
        target = np.int64(targets[edge])
        if target >= num_nodes:
            return -1
        bit = np.uint8(1 << (target & 7))
        if seen[target >> 3] & bit == 0:
            seen[target >> 3] |= bit
            if count < ahead:
                _ask_for_row(nodes + target * row_bytes, row_bytes)
            coming[count] = target
            count += 1
    return count


@inlined
def _scaled(keys, count, scale, offset):
    for place in range(count):
        keys[place] = keys[place] * scale + offset
    return count


@kernel(
    "int64(int64, int64, int64, int64, float32, float32, int64, int64, int64, int64, int64, int64, int64, int64, int64,"
    " int64, int64, int64, int64, int64, int64)"
)
def nearest_nodes(
    kind,
    nodes,
    width,
    query,
    scale,
    offset,
    num_nodes,
    ids,
    level_ends,
    num_levels,
    edge_ends,
    edges,
    num_edges,
    entry,
    effort,
    returned,
    visited,
    open_keys,
    open_nodes,
    found_keys,
    found_nodes,
):
    """Puts the `effort` nearest nodes that are found into `found_nodes` with their distances; returns how many.

    Args:
        kind: one of the constants of this module.
        nodes: `width` values or codes for each of `num_nodes`.
        query: what `kind` compares them with.
        scale, offset: the distance of a node is ``offset + scale * found``, where `found` is what is compared.
        ids: uint32: the node of each row of the graph; the rows of a level follow those of the level below, which begin
            with all nodes in order.
        level_ends: int64[num_levels + 1]: the rows of each level.
        edge_ends: int64[rows + 1]: the edges of each row, in `edges` (uint32[num_edges], the nodes they lead to).
        entry: the node where the search begins, in the uppermost level.
        returned: uint8[num_nodes]: only nodes with 1 are results; the address 0 for all.
        visited: uint8[num_nodes // 8 + 1] of 0: a bit for each node.
        open_keys, open_nodes: float32 and int64[num_nodes] of working space.
        found_keys, found_nodes: float32 and int64[effort].

    Returns:
        int64: the number of results, -1 if an edge, a row or the entry leaves the graph.
    """
    node_ids = pointer_u32(ids)
    levels = pointer_i64(level_ends)
    ends = pointer_i64(edge_ends)
    targets = pointer_u32(edges)
    wanted = pointer_u8(returned)
    seen = pointer_u8(visited)
    next_keys = pointer_f32(open_keys)
    next_nodes = pointer_i64(open_nodes)
    keys = pointer_f32(found_keys)
    results = pointer_i64(found_nodes)
    node = entry
    if node < 0 or node >= num_nodes or num_levels < 1 or effort < 1:
        return -1
    best = _distance(kind, nodes, width, query, node)
    node, best = _descended(
        kind, nodes, width, query, num_nodes, node_ids, levels, num_levels, ends, targets, num_edges, node, best
    )
    if node < 0:
        return -1
    num_open = _push(next_keys, next_nodes, 0, best, node, np.float32(1))
    num_found = 0
    row_bytes = width * (4 if kind in (SQUARED_L2, DOT) else 1)
    ahead = max(2, _AHEAD_BYTES // max(row_bytes, 1))
    coming = np.empty(_EDGES_AT_ONCE, np.int64)
    seen[node >> 3] |= np.uint8(1 << (node & 7))
    if returned == 0 or wanted[node] == 1:
        num_found = _push(keys, results, num_found, best, node, np.float32(-1))
    while num_open > 0:
        nearest = next_keys[0]
        node = next_nodes[0]
        if num_found == effort and nearest > keys[0]:
            break
        num_open = _pop(next_keys, next_nodes, num_open, np.float32(1))
        start, stop = ends[node], ends[node + 1]
        if num_open > 0:
            coming_edges = edges + 4 * ends[next_nodes[0]]
            prefetch(coming_edges)
            prefetch(coming_edges + _LINE_BYTES)
        if start < 0 or stop > num_edges:
            return -1
        for first in range(start, stop, _EDGES_AT_ONCE):
            count = _unseen(
                targets, first, min(first + _EDGES_AT_ONCE, stop), num_nodes, seen, nodes, row_bytes, ahead, coming
            )
            if count < 0:
                return -1
            for place in range(count):
                target = coming[place]
                if place + ahead < count:
                    _ask_for_row(nodes + coming[place + ahead] * row_bytes, row_bytes)
                distance = _distance(kind, nodes, width, query, target)
                if num_found < effort or distance < keys[0]:
                    prefetch(edge_ends + 8 * target)
                    num_open = _push(next_keys, next_nodes, num_open, distance, target, np.float32(1))
                    if returned == 0 or wanted[target] == 1:
                        if num_found == effort:
                            num_found = _pop(keys, results, num_found, np.float32(-1))
                        num_found = _push(keys, results, num_found, distance, target, np.float32(-1))
    return _scaled(keys, num_found, scale, offset)


@inlined
def _least_unseen(estimates, distances, size, are_squares):
    """Lower bound of the distances of nodes that were not compared: the greatest of `size` estimates, less
    `_ERRORS` times the largest difference between an estimate and its distance; of the roots of both if they
    `are_squares`. NaN if one difference is NaN or infinite."""
    greatest = np.float64(-np.inf)
    error = np.float64(0)
    for i in range(size):
        guess, value = np.float64(estimates[i]), np.float64(distances[i])
        if are_squares:
            guess, value = np.sqrt(max(guess, 0.0)), np.sqrt(value)
        difference = abs(guess - value)
        if not difference < np.inf:
            return np.float64(np.nan)
        greatest = max(greatest, guess)
        error = max(error, difference)
    return greatest - _ERRORS * error


@kernel(
    "int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)",
)
def nearest_of_found(
    kind, vectors, width, query, row_ids, found_keys, found_nodes, num_found, num_compared, count, near_keys, near_rows
):
    """Compares the nodes with the `num_compared` least estimates by their vectors, and puts the `count` nearest into
    `near_keys` and `near_rows`, first by distance, then by row id; returns how many, -1 if others can be nearer.

    The others have estimates above all of these. They can be as wrong as these are, and more: the distance of the last
    row has to be less than the greatest estimate by `_ERRORS` times the largest error.

    Args:
        kind: `SQUARED_L2` or `DOT`; the distance of the latter is 1 - a·b.
        vectors: float32[n, width].
        query: float32[width].
        row_ids: uint64[n].
        found_keys, found_nodes: estimates, float32[num_found], and nodes, int64[num_found], as `nearest_nodes` or a
            call with a smaller `num_compared` leaves them; they are put in another order.
        near_keys, near_rows: float32 and uint64[count].
    """
    keys, nodes, ids = pointer_f32(found_keys), pointer_i64(found_nodes), pointer_u64(row_ids)
    results, rows = pointer_f32(near_keys), pointer_u64(near_rows)
    size = num_found
    while size > num_compared:
        key, node = keys[0], nodes[0]
        size = _pop(keys, nodes, size, np.float32(-1))
        keys[size] = key
        nodes[size] = node
    addresses, ones = np.empty(size, np.int64), np.ones(size, np.int64)
    for i in range(size):
        addresses[i] = vectors + nodes[i] * width * 4
    distances = np.empty(size, np.float32)
    distances_f32(kind, addresses.ctypes.data, ones.ctypes.data, size, width, query, distances.ctypes.data)
    number = 0
    for i in range(size):
        if kind == DOT:
            distances[i] = np.float32(1) - distances[i]
        number = offer_row(results, rows, number, count, distances[i], ids[nodes[i]])
    if number < count:
        return -1
    last = np.float64(results[0])
    if kind != DOT:
        last = np.sqrt(last)
    if not last <= _least_unseen(keys, distances, size, kind != DOT):
        return -1
    return put_in_order(results, rows, number)
