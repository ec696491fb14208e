"""Builds HNSW graphs: nodes are inserted one after the other, each linked to near nodes in several directions.

Arguments are addresses and numbers of elements; the caller guarantees that they fit each other: nothing here comes
from a file. A node of level L has a row of links on level 0 and L rows above it: `upper[i]` is the first of these, and
that of level l is ``upper[i] + l - 1``.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import (
    Kernel,
    inlined,
    kernel,
    pointer_f32,
    pointer_i32,
    pointer_u8,
    prefetch,
    squared_difference_of_bytes,
)

SQUARED_L2, PRODUCT, CODES_SQUARED_L2 = range(3)
"""How rows are compared: float32 by squared l2 or 1 - a·b, bytes by squared l2, a quarter of the memory to read."""

MAX_CODES = (2**31 - 1) // 255**2
"""Squared differences of this many bytes have less than 32 bits together."""

_LINE_BYTES = 64
_ASKED_BYTES = 1024
"""Of each row that are asked for before it is compared; the machine goes on by itself."""

_ROWS_AHEAD = 4
"""How many rows before it is compared a row that was found is asked for."""

_ERRORS = 3
"""How many times the largest error of the codes of nodes that were found that of another node can be."""

_MIN_FAILED, _FAILED_SHARE = 100, 16
"""Codes are given up when they have failed for more nodes than this and one in `_FAILED_SHARE` of all."""


def _distance_function(values, width, one, other, kind):
    """The distance between two rows of [n, width]; that of bytes has less than 32 bits."""
    a = one * width
    b = other * width
    if kind == CODES_SQUARED_L2:
        code = pointer_u8(values)
        whole = np.int64(0)
        together = width // 32 * 32
        if together:
            whole = squared_difference_of_bytes(values + a, values + b, together)
        for j in range(together, width):
            step = np.int64(code[a + j]) - np.int64(code[b + j])
            whole += step * step
        return np.float32(whole)
    row = pointer_f32(values)
    total = np.float32(0)
    if kind == PRODUCT:
        for j in range(width):
            total += row[a + j] * row[b + j]
        return np.float32(1) - total
    for j in range(width):
        difference = row[a + j] - row[b + j]
        total += difference * difference
    return total


_distance = Kernel(_distance_function, None, reassociate=True)


@inlined
def _room(size):
    """Working space for ids, distances and marks of nodes."""
    return np.empty(size, np.int32), np.empty(size, np.float32), np.empty(size, np.uint8)


@inlined
def _ask_for(rows, node):
    """Asks for the values of a node."""
    values, width, kind = rows
    row_bytes = width if kind == CODES_SQUARED_L2 else 4 * width
    for place in range(0, min(row_bytes, _ASKED_BYTES), _LINE_BYTES):
        prefetch(values + np.int64(node) * row_bytes + place)
    return 0


@inlined
def _unseen(link, start, stop, seen, rows, visited, num_visited):
    """Appends the nodes of some links that were not visited before to `visited`, and asks for their values; returns how
    many were visited then."""
    for at in range(start, stop):
        other = np.int64(link[at])
        bit = np.uint8(1 << (other & 7))
        if seen[other >> 3] & bit == 0:
            seen[other >> 3] |= bit
            visited[num_visited] = other
            num_visited += 1
            _ask_for(rows, other)
    return num_visited


@inlined
def _insert(ids, dists, size, ef, node, distance):
    """Puts a node into a list sorted by distance of at most `ef` nodes; returns its place."""
    # To compare all takes less time than to guess wrong in every other step of a binary search.
    low = np.int32(0)
    for k in range(size):
        low += np.int32(dists[k] <= distance)
    moved = min(size, ef - 1) - low
    for k in range(moved):
        ids[low + moved - k] = ids[low + moved - k - 1]
    for k in range(moved):
        dists[low + moved - k] = dists[low + moved - k - 1]
    ids[low] = node
    dists[low] = distance
    return low


@inlined
def _search(rows, node, entry, ef, level, lift, first_row, found, seen, visited):
    """The `ef` nodes nearest to `node` that a level's links lead to from `entry`, nearest first; returns how many.

    Args:
        rows: what is compared: address, values of a row, kind.
        level: links, their distances, and the number of each row's: node i has row ``first_row[i] + lift`` of `stride`
            links (row i if lift < 0).
        found: results, ids and distances; ids of nodes whose links were followed are kept as ``~id`` meanwhile.
        seen: a bit for each node, all 0 before and after.
        visited: int32[n], working space.
    """
    values, width, kind = rows
    links, _, counts, _, _, stride = level
    ids, dists = found
    link = pointer_i32(links)
    count = pointer_i32(counts)
    ids[0] = entry
    dists[0] = _distance(values, width, node, entry, kind)
    seen[entry >> 3] |= np.uint8(1 << (entry & 7))
    visited[0] = entry
    num_visited = 1
    size = 1
    place = 0
    while place < size:
        if ids[place] < 0:
            place += 1
            continue
        current = ids[place]
        ids[place] = ~current
        row = np.int64(current) if lift < 0 else np.int64(first_row[current]) + lift
        lowest = place + 1
        before = num_visited
        num_visited = _unseen(link, row * stride, row * stride + count[row], seen, rows, visited, num_visited)
        for at in range(before, num_visited):
            other = visited[at]
            distance = _distance(values, width, node, other, kind)
            if size == ef and not distance < dists[size - 1]:
                continue
            lowest = min(lowest, _insert(ids, dists, size, ef, other, distance))
            size = min(size + 1, ef)
            if lift < 0:
                for line in range(0, 4 * stride, _LINE_BYTES):
                    prefetch(links + np.int64(other) * 4 * stride + line)
        place = lowest
    for k in range(size):
        ids[k] = ~ids[k]
    for at in range(num_visited):
        seen[visited[at] >> 3] = 0
    return size


@inlined
def _select(rows, ids, dists, settled, size, limit, chosen, others):
    """Chooses at most `limit` of the nodes, which are sorted by distance: first nodes that are nearer to the given one
    than to all chosen before, then the nearest others. Returns the number chosen, and how many are of the first sort.

    Only one of equal nodes is chosen: else they would leave no room for links to others.

    Two nodes that are both `settled` were chosen together before, so they need no comparison.
    """
    values, width, kind = rows
    chosen_ids, chosen_dists, chosen_settled = chosen
    found = 0
    num_others = 0
    for k in range(size):
        if found == limit:
            break
        apart = True
        for c in range(found):
            if settled[k] and chosen_settled[c]:
                continue
            away = _distance(values, width, ids[k], chosen_ids[c], kind)
            if away < dists[k] or away == dists[k] == chosen_dists[c]:
                apart = False
                break
        if apart:
            chosen_ids[found] = ids[k]
            chosen_dists[found] = dists[k]
            chosen_settled[found] = settled[k]
            found += 1
        elif num_others < limit:
            others[num_others] = k
            num_others += 1
    apart_from_all = found
    for at in range(min(num_others, limit - found)):
        chosen_ids[found] = ids[others[at]]
        chosen_dists[found] = dists[others[at]]
        found += 1
    return found, apart_from_all


@inlined
def _place_of(rows, target, distance, link, length, num_chosen, size):
    """(where `_select` would put a node among the links of a row that it has chosen before, how many of these are then
    chosen together); -1 as the place if the node is nearer to one of these than the row's node is.

    The other links stay ruled out, so they need no comparison.

    Args:
        link, length: the links of the row: first `num_chosen` that were chosen together, then those ruled out.
    """
    values, width, kind = rows
    place = 0
    while place < num_chosen and length[place] <= distance:
        away = _distance(values, width, target, link[place], kind)
        if away < distance or away == distance == length[place]:
            place = num_chosen
            while place < size and length[place] <= distance:
                place += 1
            return place, num_chosen
        place += 1
    for k in range(place, num_chosen):
        if _distance(values, width, link[k], target, kind) < length[k]:
            return -1, num_chosen
    return place, min(num_chosen + 1, size)


@inlined
def _link(rows, target, distance, row, level, arrays):
    """Adds a link to `target` to a row; a full row keeps those that `_select` chooses.

    Args:
        level: as of `_search`, and of each row how many links at its start were chosen together, negative or 0 if links
            were added since then; and how many links fill a row.
        arrays: working space.
    """
    links, lengths, counts, together, cap, stride = level
    link = pointer_i32(links + row * stride * 4)
    length = pointer_f32(lengths + row * stride * 4)
    count = pointer_i32(counts)
    size = count[row]
    if size < cap:
        link[size] = target
        length[size] = distance
        count[row] = size + 1
        return 0
    if together[row] > 0:
        place, num_chosen = _place_of(rows, target, distance, link, length, together[row], size)
        if place >= 0:
            for k in range(size - 1, place, -1):
                link[k] = link[k - 1]
                length[k] = length[k - 1]
            if place < size:
                link[place] = target
                length[place] = distance
            together[row] = num_chosen
            return 0
    (ids, dists, settled), (out, away, marks), others = arrays
    for k in range(size + 1):
        added = distance if k == size else length[k]
        at = k
        while at > 0 and dists[at - 1] > added:
            dists[at] = dists[at - 1]
            ids[at] = ids[at - 1]
            settled[at] = settled[at - 1]
            at -= 1
        dists[at] = added
        ids[at] = target if k == size else link[k]
        settled[at] = k < abs(together[row])
    count[row], together[row] = _select(rows, ids, dists, settled, size + 1, cap, (out, away, marks), others)
    for k in range(count[row]):
        link[k] = out[k]
        length[k] = away[k]
    return 0


@inlined
def _corrected(rows, node, found, size, ef, wanted, scale):
    """Puts exact distances in the place of those of codes and sorts nodes by them; returns whether the `wanted` nearest
    are sure to be among them: all others are further by the codes, and so by three times the largest error seen.

    Args:
        scale: of distances of codes.
    """
    values, width, kind = rows
    ids, dists = found
    furthest = dists[size - 1] * scale
    error = np.float32(0)
    for k in range(size):
        other = ids[k]
        if k + _ROWS_AHEAD < size:
            _ask_for(rows, ids[k + _ROWS_AHEAD])
        distance = _distance(values, width, node, other, kind)
        error = max(error, abs(distance - dists[k] * scale))
        at = k
        while at > 0 and dists[at - 1] > distance:
            dists[at] = dists[at - 1]
            ids[at] = ids[at - 1]
            at -= 1
        dists[at] = distance
        ids[at] = other
    return size < ef or dists[min(wanted, size) - 1] + _ERRORS * error <= furthest


@inlined
def _connect(rows, node, found, num_found, limit, level, lift, first_row, arrays):
    """Links a node with some of those that a search has found, in both directions."""
    ids, dists, settled = found
    chosen, others, linking = arrays
    together = level[3]
    linked, apart = _select(rows, ids, dists, settled, num_found, limit, chosen, others)
    row = np.int64(node) if lift < 0 else np.int64(first_row[node]) + lift
    together[row] = -apart
    for k in range(linked):
        other, away = chosen[0][k], chosen[1][k]
        there = np.int64(other) if lift < 0 else np.int64(first_row[other]) + lift
        _link(rows, other, away, row, level, linking)
        _link(rows, np.int32(node), away, there, level, linking)
    return 0


@inlined
def _mark(start, level, reached, stack):
    """Sets `reached` of a node and of all that links of the lowest level lead to from it."""
    links, _, counts, _, _, stride = level
    link = pointer_i32(links)
    count = pointer_i32(counts)
    reached[start] = 1
    stack[0] = start
    size = 1
    while size:
        size -= 1
        row = np.int64(stack[size])
        for at in range(row * stride, row * stride + count[row]):
            other = link[at]
            if not reached[other]:
                reached[other] = 1
                stack[size] = other
                size += 1
    return 0


@inlined
def _join(rows, num_nodes, entry, ef, level, first_row, found, seen, visited):
    """Adds links until all nodes of the lowest level can be reached from `entry`: of many equal nodes, rows that are
    full keep the first.

    A row has room for one more link than others fill it with. The next ones go to the node that this leads to.
    """
    values, width, kind = rows
    links, lengths, counts, _, _, stride = level
    link, length, count = pointer_i32(links), pointer_f32(lengths), pointer_i32(counts)
    reached, last = np.zeros(num_nodes, np.uint8), np.empty(num_nodes, np.int32)
    _mark(entry, level, reached, visited)
    for node in range(num_nodes):
        if reached[node]:
            continue
        _search(rows, node, entry, ef, level, np.int64(-1), first_row, found, seen, visited)
        nearest = np.int64(found[0][0])
        row = nearest
        while count[row] == stride:
            row = np.int64(last[row])
        link[row * stride + count[row]] = node
        length[row * stride + count[row]] = _distance(values, width, row, node, kind)
        count[row] += 1
        last[row] = node
        last[nearest] = node
        _mark(np.int32(node), level, reached, visited)
    return 0


@kernel(
    "int64(int64, int64, int64, int64, int64, float64, int64, int64, int64, int64, int64, int64, int64, int64, int64,"
    " int64, int64)",
    reassociate=True,
)
def build_graph(
    values,
    num_nodes,
    width,
    kind,
    codes,
    scale,
    m,
    ef,
    levels,
    upper,
    links,
    lengths,
    counts,
    up_links,
    up_lengths,
    up_counts,
    room,
):
    """Fills the links of a graph; returns the entry point, a node of the highest level.

    Args:
        values: [n, width], of float32 or uint8.
        kind: one of the constants of this module.
        codes: uint8[n, width]: by these nodes are searched for, and what is found is compared by the values; 0 if there
            are none.
        scale: squared l2 distances of codes multiplied by it are about those of values.
        levels: int32[n].
        upper: int32[n].
        links, lengths: int32 and float32[n, 2m + 1]: neighbours on level 0 and their distances, written.
        counts: int32[n], zeros at first.
        up_links, up_lengths, up_counts: the same for rows above level 0, with m links.
        room: int32 and float32[max(ef, 2m + 1) + 1], working space. Arrays of the kernel itself are read with a check
            for places counted from the end, which keeps loops from being vector instructions.
    """
    level_of, first_row = pointer_i32(levels), pointer_i32(upper)
    rows = values, width, kind
    walked = (codes, width, np.int64(CODES_SQUARED_L2)) if codes else rows
    num_failed = 0
    size_of = max(ef, 2 * m + 1) + 1
    # Of nodes that a search has found, none are settled.
    ids, dists, settled = pointer_i32(room), pointer_f32(room + 4 * size_of), np.zeros(size_of, np.uint8)
    others = np.empty(2 * m + 2, np.int32)
    arrays = _room(2 * m + 2), others, (_room(2 * m + 2), _room(2 * m + 2), others)
    seen, visited = np.zeros(num_nodes // 8 + 1, np.uint8), np.empty(num_nodes, np.int32)
    lowest = links, lengths, counts, np.zeros(num_nodes, np.int32), 2 * m, 2 * m + 1
    num_above = first_row[num_nodes - 1] + level_of[num_nodes - 1]
    upper_levels = up_links, up_lengths, up_counts, np.zeros(num_above, np.int32), m, m
    entry = np.int32(0)
    for node in range(1, num_nodes):
        nearest = entry
        for number in range(level_of[entry], -1, -1):
            level, lift = lowest if number == 0 else upper_levels, np.int64(number - 1)
            is_own = number <= level_of[node]
            kept = ef if is_own else 1
            found = _search(walked, node, nearest, kept, level, lift, first_row, (ids, dists), seen, visited)
            if is_own and walked[0] != values and not _corrected(rows, node, (ids, dists), found, ef, m, scale):
                found = _search(rows, node, nearest, kept, level, lift, first_row, (ids, dists), seen, visited)
                num_failed += 1
                if num_failed > _MIN_FAILED + node // _FAILED_SHARE:
                    walked = rows
            nearest = ids[0]
            if is_own:
                _connect(rows, node, (ids, dists, settled), found, m, level, lift, first_row, arrays)
        if level_of[node] > level_of[entry]:
            entry = np.int32(node)
    _join(rows, num_nodes, entry, m, lowest, first_row, (ids, dists), seen, visited)
    return np.int64(entry)
