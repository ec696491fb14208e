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

_ASKED_BYTES = 1024
"""Of each row that are asked for before it is compared; the machine goes on by itself."""


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
def _unseen(link, start, stop, seen, stamp, values, row_bytes, coming):
    """Puts the nodes of some links that were not visited before into `coming`, and asks for their values; returns how
    many they are."""
    count = 0
    for at in range(start, stop):
        other = link[at]
        if seen[other] != stamp:
            seen[other] = stamp
            coming[count] = other
            count += 1
            for place in range(0, min(row_bytes, _ASKED_BYTES), 64):
                prefetch(values + np.int64(other) * row_bytes + place)
    return count


@inlined
def _search(values, width, kind, node, entry, ef, links, counts, row_of, lift, cap, stamps, stamp, ids, dists, coming):
    """The `ef` nodes nearest to `node` that a level's links lead to from `entry`, nearest first; returns how many.

    Args:
        links, counts: of the level, int32; node i has row ``row_of[i] + lift`` of `cap` links (row i if lift < 0).
        stamps: int32[n]: nodes with the value `stamp` were visited.
        ids, dists: results; ids of nodes whose links were followed are kept as ``~id`` meanwhile.
        coming: int32[cap], working space.
    """
    link = pointer_i32(links)
    count = pointer_i32(counts)
    first_row = pointer_i32(row_of)
    seen = pointer_i32(stamps)
    row_bytes = width if kind == CODES_SQUARED_L2 else 4 * width
    ids[0] = entry
    dists[0] = _distance(values, width, node, entry, kind)
    seen[entry] = stamp
    size = 1
    place = 0
    while place < size:
        if ids[place] < 0:
            place += 1
            continue
        current = ids[place]
        ids[place] = ~current
        row = np.int64(current)
        if lift >= 0:
            row = np.int64(first_row[current]) + lift
        lowest = place + 1
        num_coming = _unseen(link, row * cap, row * cap + count[row], seen, stamp, values, row_bytes, coming)
        for at in range(num_coming):
            other = coming[at]
            distance = _distance(values, width, node, other, kind)
            if size == ef and not distance < dists[size - 1]:
                continue
            low = 0
            high = size
            while low < high:
                middle = (low + high) >> 1
                if dists[middle] <= distance:
                    low = middle + 1
                else:
                    high = middle
            if size < ef:
                size += 1
            for k in range(size - 1, low, -1):
                ids[k] = ids[k - 1]
                dists[k] = dists[k - 1]
            ids[low] = other
            dists[low] = distance
            lowest = min(lowest, low)
        place = lowest
    for k in range(size):
        ids[k] = ~ids[k]
    return size


@inlined
def _select(values, width, kind, ids, dists, settled, size, limit, chosen, others):
    """Of nodes sorted by distance at most `limit`: first those that are nearer to the node than to all chosen before,
    then the nearest of the others. Returns how many there are, and how many of them are of the first sort.

    Two nodes that are both `settled` were chosen together before, so they need no comparison.
    """
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
            if _distance(values, width, ids[k], chosen_ids[c], kind) < dists[k]:
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
def _link(values, width, kind, target, distance, row, cap, links, lengths, counts, chosen_before, arrays):
    """Adds a link to `target` to a row; a full row keeps those that `_select` chooses.

    `chosen_before[row]` links at its start were chosen together. `arrays` are those of `_select`.
    """
    (ids, dists, settled), chosen, others = arrays
    out, apart, _ = chosen
    link = pointer_i32(links)
    length = pointer_f32(lengths)
    count = pointer_i32(counts)
    start = row * cap
    size = count[row]
    if size < cap:
        link[start + size] = target
        length[start + size] = distance
        count[row] = size + 1
        return 0
    filled = 0
    for k in range(size + 1):
        other = target if k == size else link[start + k]
        away = distance if k == size else length[start + k]
        at = filled
        while at > 0 and dists[at - 1] > away:
            dists[at] = dists[at - 1]
            ids[at] = ids[at - 1]
            settled[at] = settled[at - 1]
            at -= 1
        dists[at] = away
        ids[at] = other
        settled[at] = k < chosen_before[row]
        filled += 1
    kept, chosen_before[row] = _select(values, width, kind, ids, dists, settled, filled, cap, chosen, others)
    for k in range(kept):
        link[start + k] = out[k]
        length[start + k] = apart[k]
    count[row] = kept
    return 0


@kernel(
    "int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)",
    reassociate=True,
)
def build_graph(
    values,
    num_nodes,
    width,
    kind,
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
    stamps,
):
    """Fills the links of a graph; returns the entry point, a node of the highest level.

    Args:
        values: [n, width], of float32 or uint8.
        kind: one of the constants of this module.
        levels: int32[n].
        upper: int32[n].
        links, lengths: int32 and float32[n, 2m]: neighbours on level 0 and their distances, written.
        counts: int32[n], zeros at first.
        up_links, up_lengths, up_counts: the same for rows above level 0, with m links.
        stamps: int32[n] of -1, working space.
    """
    level_of, first_row = pointer_i32(levels), pointer_i32(upper)
    stamp = np.int32(0)
    size_of = max(ef, 2 * m + 1)
    ids = np.empty(size_of + 1, np.int32)
    dists = np.empty(size_of + 1, np.float32)
    chosen = np.empty(2 * m + 2, np.int32), np.empty(2 * m + 2, np.float32), np.empty(2 * m + 2, np.uint8)
    others = np.empty(2 * m + 2, np.int32)
    # Of nodes that a search has found, none are settled.
    settled = np.zeros(size_of + 1, np.uint8)
    sorted_links = np.empty(2 * m + 2, np.int32), np.empty(2 * m + 2, np.float32), np.empty(2 * m + 2, np.uint8)
    kept = np.empty(2 * m + 2, np.int32), np.empty(2 * m + 2, np.float32), np.empty(2 * m + 2, np.uint8)
    arrays = sorted_links, kept, others
    chosen_before = np.zeros(num_nodes, np.int32)
    up_chosen_before = np.zeros(first_row[num_nodes - 1] + level_of[num_nodes - 1], np.int32)
    entry = np.int32(0)
    top = level_of[0]
    for node in range(1, num_nodes):
        own = level_of[node]
        nearest = entry
        for level in range(top, -1, -1):
            above = level > own
            cap = 2 * m if level == 0 else m
            lift = np.int64(level - 1)
            here, apart, number = (links, lengths, counts) if level == 0 else (up_links, up_lengths, up_counts)
            found = _search(
                values,
                width,
                kind,
                node,
                nearest,
                1 if above else ef,
                here,
                number,
                upper,
                lift,
                cap,
                stamps,
                stamp,
                ids,
                dists,
                others,
            )
            stamp += np.int32(1)
            nearest = ids[0]
            if above:
                continue
            linked, settled_together = _select(values, width, kind, ids, dists, settled, found, m, chosen, others)
            together = chosen_before if level == 0 else up_chosen_before
            row = np.int64(node) if level == 0 else np.int64(first_row[node]) + lift
            together[row] = settled_together
            for k in range(linked):
                other, away = chosen[0][k], chosen[1][k]
                there = np.int64(other) if level == 0 else np.int64(first_row[other]) + lift
                _link(values, width, kind, other, away, row, cap, here, apart, number, together, arrays)
                me = np.int32(node)
                _link(values, width, kind, me, away, there, cap, here, apart, number, together, arrays)
        if own > top:
            top = own
            entry = np.int32(node)
    return np.int64(entry)
