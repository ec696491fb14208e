"""The best documents that a search has found so far, as a heap: the first one is the worst of them.

Documents with the same score are in the order of u64 numbers, or in that of their own numbers.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined


@inlined
def _is_later(order, has_order, first, second):
    """Whether a document comes after another one with the same score."""
    if has_order == 1:
        return order[first] > order[second]
    return first > second


@inlined
def enters(score, doc, found, limit, floor, docs, scores, order, has_order):
    """Whether a document with this score is among the best so far; `doc` -1: whether any later one can be."""
    if not score >= floor:
        return False
    if found < limit:
        return True
    if score != scores[0]:
        return score > scores[0]
    if doc < 0:
        return has_order == 1
    return _is_later(order, has_order, np.int64(docs[0]), doc)


@inlined
def _is_worse(first, second, docs, scores, order, has_order):
    if scores[first] != scores[second]:
        return scores[first] < scores[second]
    return _is_later(order, has_order, np.int64(docs[first]), np.int64(docs[second]))


@inlined
def _swap(first, second, docs, scores):
    docs[first], docs[second] = docs[second], docs[first]
    scores[first], scores[second] = scores[second], scores[first]


@inlined
def put(doc, score, found, limit, docs, scores, order, has_order):
    """Puts a document into the heap, whose first one is the worst; the size of the heap after it."""
    if found < limit:
        place = found
        docs[place] = doc
        scores[place] = score
        while place > 0 and _is_worse(place, (place - 1) // 2, docs, scores, order, has_order):
            _swap(place, (place - 1) // 2, docs, scores)
            place = (place - 1) // 2
        return found + 1
    docs[0] = doc
    scores[0] = score
    place = np.int64(0)
    while 2 * place + 1 < found:
        child = 2 * place + 1
        if child + 1 < found and _is_worse(child + 1, child, docs, scores, order, has_order):
            child += 1
        if not _is_worse(child, place, docs, scores, order, has_order):
            break
        _swap(place, child, docs, scores)
        place = child
    return found
