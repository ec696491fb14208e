"""Builds HNSW graphs: nodes are inserted one after the other, each linked to near nodes in several directions.

Arguments are addresses and numbers of elements; the caller guarantees that they fit each other: nothing here comes
from a file. A node of level L has a row of links on level 0 and L rows above it: `upper[i]` is the first of these, and
that of level l is ``upper[i] + l - 1``.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import Kernel, inlined, kernel, pointer_f32, pointer_i32


def _distance_function(values, width, one, other, by_product):
    """Squared l2, or 1 - a·b, between two rows of float32[n, width]."""
    row = pointer_f32(values)
    a = one * width
    b = other * width
    total = np.float32(0)
    if by_product:
        for j in range(width):
            total += row[a + j] * row[b + j]
        return np.float32(1) - total
    for j in range(width):
        difference = row[a + j] - row[b + j]
        total += difference * difference
    return total


_distance = Kernel(_distance_function, None, reassociate=True)


@inlined
def _search(values, width, by_product, node, entry, ef, links, counts, row_of, lift, cap, stamps, stamp, ids, dists):
    """The `ef` nodes nearest to `node` that a level's links lead to from `entry`, nearest first; returns how many.

    Args:
        links, counts: of the level, int32; node i has row ``row_of[i] + lift`` of `cap` links (row i if lift < 0).
        stamps: int32[n]: nodes with the value `stamp` were visited.
        ids, dists: results; ids of nodes whose links were followed are kept as ``~id`` meanwhile.
    """
    link = pointer_i32(links)
    count = pointer_i32(counts)
    first_row = pointer_i32(row_of)
    seen = pointer_i32(stamps)
    ids[0] = entry
    dists[0] = _distance(values, width, node, entry, by_product)
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
        for at in range(row * cap, row * cap + count[row]):
            other = link[at]
            if seen[other] == stamp:
                continue
            seen[other] = stamp
            distance = _distance(values, width, node, other, by_product)
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
def _select(values, width, by_product, ids, dists, size, limit, chosen_ids, chosen_dists):
    """Of nodes sorted by distance at most `limit`: those that are nearer to the node than to all chosen before."""
    found = 0
    for k in range(size):
        if found == limit:
            break
        apart = True
        for c in range(found):
            if _distance(values, width, ids[k], chosen_ids[c], by_product) < dists[k]:
                apart = False
                break
        if apart:
            chosen_ids[found] = ids[k]
            chosen_dists[found] = dists[k]
            found += 1
    return found


@inlined
def _link(values, width, by_product, target, distance, row, cap, links, lengths, counts, ids, dists, out, apart):
    """Adds a link to `target` to a row; a full row keeps those that `_select` chooses."""
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
            at -= 1
        dists[at] = away
        ids[at] = other
        filled += 1
    kept = _select(values, width, by_product, ids, dists, filled, cap, out, apart)
    for k in range(kept):
        link[start + k] = out[k]
        length[start + k] = apart[k]
    count[row] = kept
    return 0


@kernel(
    "int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)",
    reassociate=True,
)
def build_graph(
    values, num_nodes, width, by_product, m, ef, levels, upper, links, lengths, counts, up_links, up_lengths, up_counts
):
    """Fills the links of a graph; returns the entry point, a node of the highest level.

    Args:
        values: float32[n, width].
        by_product: 1 for the distance 1 - a·b, 0 for squared l2.
        levels: int32[n].
        upper: int32[n].
        links, lengths: int32 and float32[n, 2m]: neighbours on level 0 and their distances, written.
        counts: int32[n], zeros at first.
        up_links, up_lengths, up_counts: the same for rows above level 0, with m links.
    """
    level_of = pointer_i32(levels)
    first_row = pointer_i32(upper)
    stamps = np.full(num_nodes, -1, np.int32)
    seen = stamps.ctypes.data
    stamp = np.int32(0)
    size_of = max(ef, 2 * m + 1)
    ids = np.empty(size_of + 1, np.int32)
    dists = np.empty(size_of + 1, np.float32)
    chosen = np.empty(2 * m + 1, np.int32)
    chosen_dists = np.empty(2 * m + 1, np.float32)
    scratch = np.empty(2 * m + 2, np.int32)
    scratch_dists = np.empty(2 * m + 2, np.float32)
    kept = np.empty(2 * m + 2, np.int32)
    kept_dists = np.empty(2 * m + 2, np.float32)
    entry = np.int32(0)
    top = level_of[0]
    for node in range(1, num_nodes):
        own = level_of[node]
        nearest = entry
        for level in range(top, -1, -1):
            above = level > own
            cap = 2 * m if level == 0 else m
            lift = np.int64(level - 1)
            here = links if level == 0 else up_links
            apart = lengths if level == 0 else up_lengths
            number = counts if level == 0 else up_counts
            limit = 1 if above else ef
            found = _search(
                values, width, by_product, node, nearest, limit, here, number, upper, lift, cap, seen, stamp, ids, dists
            )
            stamp += np.int32(1)
            nearest = ids[0]
            if above:
                continue
            linked = _select(values, width, by_product, ids, dists, found, m, chosen, chosen_dists)
            row = np.int64(node) if level == 0 else np.int64(first_row[node]) + lift
            for k in range(linked):
                other = chosen[k]
                there = np.int64(other) if level == 0 else np.int64(first_row[other]) + lift
                _link(
                    values,
                    width,
                    by_product,
                    other,
                    chosen_dists[k],
                    row,
                    cap,
                    here,
                    apart,
                    number,
                    scratch,
                    scratch_dists,
                    kept,
                    kept_dists,
                )
                _link(
                    values,
                    width,
                    by_product,
                    np.int32(node),
                    chosen_dists[k],
                    there,
                    cap,
                    here,
                    apart,
                    number,
                    scratch,
                    scratch_dists,
                    kept,
                    kept_dists,
                )
        if own > top:
            top = own
            entry = np.int32(node)
    return np.int64(entry)
