"""The best documents of a query: blocks that cannot have any of them are neither decoded nor scored.

The terms of a query are rows of a table of int64, in the order in which their scores are added: first within a word,
then word after word. Sums of 32-bit floats in one order grow with each of their parts, so the sum of the highest scores
of some blocks is a bound for the scores of all documents in them, without any tolerance.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import (
    inlined,
    kernel,
    pointer_f32,
    pointer_i32,
    pointer_i64,
    pointer_u8,
    pointer_u32,
    pointer_u64,
)
from lance_spark.kernels.text.blocks import OUT_OF_RANGE, TOO_SHORT, decode_block, decode_positions_of_block
from lance_spark.kernels.text.heap import enters, put
from lance_spark.kernels.text.postings import weight_of

# What the caller fills in: addresses, sizes, the word, and the place of the word in a phrase.
DATA, NUM_BYTES, ENDS, FIRSTS, LASTS, BOUNDS, NUM_BLOCKS, COUNT, WORD, RANK = range(10)
DOCS, FREQS, POSITION_BYTES, NUM_POSITION_BYTES, POSITION_STARTS, POSITIONS, MOST_POSITIONS, GAP, NORMS = range(10, 19)
# The state of the search: current and decoded block, place in it, and what the term has to do with a document.
BLOCK, DECODED, PLACE, SIZE, POSITIONS_OF, IS_HERE, IS_LEADING, IS_HIT, AT = range(19, 28)
# 1 for terms that are looked up for documents of others: their blocks end no range.
IS_LOOKED_UP = 28
# The documents of a term as bits, and whether the term can be in the document that is looked at.
MEMBERS, MAY_HIT = range(29, 31)
NUM_FIELDS = 31

_MOST_SKIPPED = 16
"""Documents that have a word more often are not skipped by its frequency."""


@inlined
def _decode(table, term, block, has_varints, num_docs):
    """Decodes the current block of a term, if it is not decoded; 0 or an error."""
    row = term * NUM_FIELDS
    number = table[row + BLOCK]
    if table[row + DECODED] == number:
        return np.int64(0)
    count = table[row + COUNT]
    first = number * block
    size = min(np.int64(block), count - first)
    table[row + DECODED] = number
    table[row + PLACE] = 0
    table[row + SIZE] = size
    ends = pointer_i64(table[row + ENDS])
    last = np.int64(-1)
    if number > 0:
        last = np.int64(pointer_i32(table[row + LASTS])[number - 1])
    last = decode_block(
        pointer_u8(table[row + DATA]),
        ends[number],
        ends[number + 1],
        table[row + NUM_BYTES],
        block,
        size,
        has_varints,
        num_docs,
        last,
        pointer_i32(table[row + DOCS]),
        pointer_i32(table[row + FREQS]),
        0,
    )
    return min(last, np.int64(0))


@inlined
def _advance(table, term, doc):
    """Moves the place in the decoded block of a term to its first document >= `doc`."""
    row = term * NUM_FIELDS
    docs = pointer_i32(table[row + DOCS])
    place = table[row + PLACE]
    left = table[row + SIZE] - place
    if left <= 0 or docs[place] >= doc:
        return
    # Halving without branches: which half it is cannot be foretold.
    while left > 1:
        half = left >> 1
        place += half * np.int64(docs[place + half] < doc)
        left -= half
    table[row + PLACE] = place + 1


@inlined
def _sum(table, num_terms, scores):
    """The sum of the scores of terms, in the order of the table."""
    total = np.float32(0)
    part = np.float32(0)
    for term in range(num_terms):
        if term > 0 and table[term * NUM_FIELDS + WORD] != table[(term - 1) * NUM_FIELDS + WORD]:
            total += part
            part = np.float32(0)
        part += scores[term]
    return total + part


@inlined
def _has_each_word(table, num_terms, field):
    """Whether each word has a term of which `field` is 1."""
    found = np.int64(0)
    for term in range(num_terms):
        row = term * NUM_FIELDS
        if term > 0 and table[row + WORD] != table[row - NUM_FIELDS + WORD]:
            if found == 0:
                return False
            found = np.int64(0)
        found |= table[row + field]
    return found == 1


@inlined
def _choose_looked_up(table, num_terms, highest, boost, lowest):
    """Marks the terms that documents without any other term can have, and still be below `lowest`; it only grows."""
    slack = np.float64(boost) * (1 + (num_terms + 2) * 1.2e-7)
    total = np.float64(0)
    for rank in range(num_terms):
        term = table[rank * NUM_FIELDS + RANK]
        total += np.float64(highest[term])
        if not total * slack + 1e-40 < np.float64(lowest):
            break
        table[term * NUM_FIELDS + IS_LOOKED_UP] = 1


@inlined
def _go_to_block(table, term, doc):
    """Moves a term to its first block that ends at or after `doc`; whether there is one."""
    row = term * NUM_FIELDS
    number = table[row + BLOCK]
    blocks = table[row + NUM_BLOCKS]
    lasts = pointer_i32(table[row + LASTS])
    while number < blocks and lasts[number] < doc:
        number += 1
    table[row + BLOCK] = number
    return number < blocks


@inlined
def _window(table, num_terms, doc, num_docs, weights, highest, scores):
    """The last document of the range from `doc` in which no term changes its block, but for those that are looked up;
    a negative number at the end.

    Fills for each term whether its current block is in this range, and the highest score that it has there.
    """
    last = num_docs - 1
    left = False
    for term in range(num_terms):
        row = term * NUM_FIELDS
        is_left = _go_to_block(table, term, doc)
        table[row + IS_HERE] = 0
        scores[term] = np.float32(0)
        if not is_left:
            continue
        if table[row + IS_LOOKED_UP] == 1:
            table[row + IS_HERE] = 1
            scores[term] = highest[term]
            continue
        left = True
        number = table[row + BLOCK]
        first = np.int64(pointer_i32(table[row + FIRSTS])[number])
        if first > doc:
            last = min(last, first - 1)
        else:
            last = min(last, np.int64(pointer_i32(table[row + LASTS])[number]))
            table[row + IS_HERE] = 1
            scores[term] = weights[term] * pointer_f32(table[row + BOUNDS])[number]
    return last if left else np.int64(-1)


@inlined
def _choose_leading(table, num_terms, leading_word, scores, boost, lowest):
    """Marks the terms whose documents are looked at one by one; documents without any of them cannot be results.

    Args:
        leading_word: for AND a word that must match; -1 for OR.
        lowest: documents with a lower score are no results.
    """
    # Sums of 32-bit floats in any order are below the sum here times this factor.
    slack = np.float64(boost) * (1 + (num_terms + 2) * 1.2e-7)
    total = np.float64(0)
    is_below = True
    for rank in range(num_terms):
        term = table[rank * NUM_FIELDS + RANK]
        row = term * NUM_FIELDS
        if leading_word >= 0:
            table[row + IS_LEADING] = 1 if table[row + WORD] == leading_word else 0
            continue
        table[row + IS_LEADING] = 0
        if table[row + IS_HERE] == 0:
            continue
        # Of terms that are looked up the sum is low enough, as it was when they were chosen.
        total += np.float64(scores[term])
        is_below = is_below and total * slack + 1e-40 < np.float64(lowest)
        if not is_below and table[row + IS_LOOKED_UP] == 0:
            table[row + IS_LEADING] = 1


@inlined
def _decode_positions(table, term):
    """Decodes the positions in the current block of a term, if they are not decoded; 0 or an error."""
    row = term * NUM_FIELDS
    number = table[row + BLOCK]
    if table[row + POSITIONS_OF] == number:
        return np.int64(0)
    starts = pointer_u32(table[row + POSITION_STARTS])
    place = np.int64(starts[number])
    stop = table[row + NUM_POSITION_BYTES]
    if number + 1 < table[row + NUM_BLOCKS]:
        stop = np.int64(starts[number + 1])
    if place > stop or stop > table[row + NUM_POSITION_BYTES]:
        return np.int64(TOO_SHORT)
    done = decode_positions_of_block(
        pointer_u8(table[row + POSITION_BYTES]),
        place,
        stop,
        pointer_i32(table[row + FREQS]),
        0,
        table[row + SIZE],
        pointer_i32(table[row + POSITIONS]),
        0,
        table[row + MOST_POSITIONS],
    )
    table[row + POSITIONS_OF] = number
    return min(done, np.int64(0))


@inlined
def _is_phrase(table, num_terms, slop, ends):
    """1 if the terms are in order in the document at which all of them are, 0 if not, or an error.

    Args:
        ends: i32, scratch: where the part of the phrase so far can end, then where one with the next word can end.
    """
    num_ends = np.int64(0)
    for term in range(num_terms):
        failed = _decode_positions(table, term)
        if failed < 0:
            return failed
        row = term * NUM_FIELDS
        freqs = pointer_i32(table[row + FREQS])
        positions = pointer_i32(table[row + POSITIONS])
        at = table[row + AT]
        start = np.int64(0)
        for i in range(at):
            start += freqs[i]
        stop = start + freqs[at]
        if term == 0:
            for i in range(start, stop):
                ends[num_ends] = positions[i]
                num_ends += 1
            continue
        gap = table[row + GAP]
        nearest = np.int64(-1)
        kept = np.int64(0)
        for i in range(start, stop):
            before = np.int64(positions[i]) - gap
            while nearest + 1 < num_ends and ends[nearest + 1] <= before:
                nearest += 1
            if nearest >= 0 and before - ends[nearest] <= slop:
                ends[num_ends + kept] = positions[i]
                kept += 1
        for i in range(kept):
            ends[i] = ends[num_ends + i]
        num_ends = kept
        if kept == 0:
            return np.int64(0)
    return np.int64(1)


@inlined
def _next(table, num_terms, last):
    """The first document up to `last` that a leading term has at its place; -1 if there is none."""
    doc = last + 1
    for term in range(num_terms):
        row = term * NUM_FIELDS
        if table[row + IS_HERE] == 1 and table[row + IS_LEADING] == 1 and table[row + PLACE] < table[row + SIZE]:
            doc = min(doc, np.int64(pointer_i32(table[row + DOCS])[table[row + PLACE]]))
    return doc if doc <= last else np.int64(-1)


@inlined
def _score_term(table, term, doc, weight, norms):
    """The score of a term whose place is at or after `doc`; notes whether it is at `doc`."""
    row = term * NUM_FIELDS
    place = table[row + PLACE]
    table[row + IS_HIT] = 0
    if place >= table[row + SIZE] or pointer_i32(table[row + DOCS])[place] != doc:
        return np.float32(0)
    table[row + IS_HIT] = 1
    table[row + AT] = place
    return weight * weight_of(pointer_i32(table[row + FREQS])[place], norms[doc])


@inlined
def _only_leading(table, num_terms):
    """The only leading term in the current range; -1 if there are several."""
    only = np.int64(-1)
    for term in range(num_terms):
        row = term * NUM_FIELDS
        if table[row + IS_HERE] == 1 and table[row + IS_LEADING] == 1:
            if only >= 0:
                return np.int64(-1)
            only = np.int64(term)
    return only


@inlined
def _low_freq(table, num_terms, term, weights, scores, boost, found, limit, floor, docs, best, order, has_order):
    """Highest frequency of the only leading term at which no document of the range can enter; 0 if `term` is -1.

    Weights shrink with growing norms in 32-bit floating point too. `scores` has the highest ones of the range.
    """
    if term < 0:
        return np.int64(0)
    norm = pointer_f32(table[term * NUM_FIELDS + NORMS])[table[term * NUM_FIELDS + BLOCK]]
    kept = scores[term]
    highest = np.float32(0)
    freq = np.int64(0)
    while freq < _MOST_SKIPPED:
        highest = max(highest, weights[term] * weight_of(np.int32(freq + 1), norm))
        scores[term] = highest
        score = _sum(table, num_terms, scores) * boost
        if enters(score, np.int64(-1), found, limit, floor, docs, best, order, has_order):
            break
        freq += 1
    scores[term] = kept
    return freq


@inlined
def _skip_low(table, term, last, low_freq):
    """Moves a term to its first document that is behind `last` or has it more than `low_freq` times."""
    row = term * NUM_FIELDS
    docs, freqs = pointer_i32(table[row + DOCS]), pointer_i32(table[row + FREQS])
    place, size = table[row + PLACE], table[row + SIZE]
    while place < size and freqs[place] <= low_freq and docs[place] <= last:
        place += 1
    table[row + PLACE] = place


@inlined
def _start_leading(table, num_terms, start, block, has_varints, num_docs):
    """Puts the leading terms to their first documents at or after `start`; how many others there are, or an error."""
    others = np.int64(0)
    for term in range(num_terms):
        row = term * NUM_FIELDS
        table[row + IS_HIT] = 0
        if table[row + IS_HERE] == 0:
            continue
        if table[row + IS_LEADING] == 0:
            others += 1
            continue
        if _decode(table, term, block, has_varints, num_docs) < 0:
            return np.int64(OUT_OF_RANGE)
        _advance(table, term, start)
    return others


@inlined
def _may_hit(table, term, doc):
    """1 if a term that does not lead can be in a document, as far as its bits or the bounds of its block tell."""
    row = term * NUM_FIELDS
    if table[row + IS_HERE] == 0:
        return np.int64(0)
    members = table[row + MEMBERS]
    if members != 0 and (pointer_u8(members)[doc >> 3] >> (doc & 7)) & 1 == 0:
        return np.int64(0)
    if table[row + IS_LOOKED_UP] == 0:
        return np.int64(1)
    if not _go_to_block(table, term, doc) or pointer_i32(table[row + FIRSTS])[table[row + BLOCK]] > doc:
        return np.int64(0)
    return np.int64(1)


@inlined
def _score_leading(table, num_terms, doc, weights, scores, norms):
    """The scores of the leading terms in a document, which go on behind it, and bounds of those of the others."""
    for term in range(num_terms):
        row = term * NUM_FIELDS
        scores[term] = np.float32(0)
        if table[row + IS_HERE] == 1 and table[row + IS_LEADING] == 1:
            scores[term] = _score_term(table, term, doc, weights[term], norms)
            table[row + PLACE] += table[row + IS_HIT]
            table[row + MAY_HIT] = table[row + IS_HIT]
            continue
        table[row + IS_HIT] = 0
        table[row + MAY_HIT] = _may_hit(table, term, doc)
        if table[row + MAY_HIT] == 1:
            scores[term] = weights[term] * pointer_f32(table[row + BOUNDS])[table[row + BLOCK]]


@inlined
def _score_others(table, num_terms, doc, weights, scores, norms, block, has_varints, num_docs, boost, lowest):
    """The scores of the terms that do not lead in a document, those with the highest bounds first; 0 or an error.

    Stops when the scores known and the bounds of the others are below `lowest`.
    """
    for rank in range(num_terms - 1, -1, -1):
        term = table[rank * NUM_FIELDS + RANK]
        row = term * NUM_FIELDS
        if table[row + MAY_HIT] == 1 and table[row + IS_LEADING] == 0:
            if _decode(table, term, block, has_varints, num_docs) < 0:
                return np.int64(OUT_OF_RANGE)
            _advance(table, term, doc)
            scores[term] = _score_term(table, term, doc, weights[term], norms)
            if _sum(table, num_terms, scores) * boost < lowest:
                return np.int64(0)
    return np.int64(0)


@inlined
def _counts(table, num_terms, numbers, doc, ends):
    """1 if a document with some of the terms is a result, 0 if not, or an error."""
    if numbers[1] == 1 and not _has_each_word(table, num_terms, IS_HIT):
        return np.int64(0)
    if numbers[10] != 0 and pointer_u8(numbers[10])[doc] == 0:
        return np.int64(0)
    return _is_phrase(table, num_terms, numbers[4], ends) if numbers[3] == 1 else np.int64(1)


@inlined
def _is_result(
    table,
    num_terms,
    numbers,
    doc,
    others,
    weights,
    scores,
    norms,
    boost,
    found,
    floor,
    docs,
    best,
    order,
    has_order,
    ends,
):
    """1 if a document is among the best so far, with the terms that do not lead as well, 0 if not, or an error.

    Args:
        numbers: those of `best_documents`.
        others: how many terms do not lead.
    """
    if others > 0:
        limit = numbers[8]
        lowest = floor if found < limit else max(floor, best[0])
        failed = _score_others(
            table, num_terms, doc, weights, scores, norms, numbers[5], numbers[6], numbers[7], boost, lowest
        )
        if failed < 0:
            return failed
        score = _sum(table, num_terms, scores) * boost
        if not enters(score, doc, found, limit, floor, docs, best, order, has_order):
            return np.int64(0)
    return _counts(table, num_terms, numbers, doc, ends)


@kernel("int64(int64, int64, int64, int64, int64)")
def best_documents(table_at, numbers_at, weights_at, out_docs_at, out_scores_at):
    """The documents of a part of an index with the highest scores, in the order of a heap.

    Args:
        table_at: i64, a row of `NUM_FIELDS` for each term. The blocks were checked by `measure_blocks`. DOCS, FREQS:
            i32[block] each, room for the decoded block. MEMBERS: u8, a bit for each document of the part, or 0.
            IS_LOOKED_UP: for AND, 1 for words with many more documents than the leading one. For phrases POSITIONS:
            i32[MOST_POSITIONS], scratch. RANK of row r: the term with the r-th lowest scores. GAP: how far a word of a
            phrase is from the one before. NORMS: f32, the lowest norm of each block.
        numbers_at: i64: number of terms; 1 if all words must match; for these the word with the fewest documents,
            else -1; 1 for a phrase; its slop; the size of a full block; 1 if partial blocks hold varints; documents of
            the part; the most results; addresses of f32 norms; of u8 that tell whether documents count, or 0; of u64
            by which documents with the same score are ordered, or 0 for their numbers; of scratch i32 for ends of
            phrases: twice the most positions.
        weights_at: f32: what the weight of each term is multiplied with, then as many scratch numbers, then the highest
            score of each term, then the factor of all scores, and a score; lower ones are no results.
        out_docs_at, out_scores_at: i32 and f32 with room for the most results, filled.

    Returns: the number of results, or an error.
    """
    table = pointer_i64(table_at)
    numbers = pointer_i64(numbers_at)
    num_terms, needs_all, leading_word = numbers[0], numbers[1], numbers[2]
    block, has_varints, num_docs, limit = numbers[5], numbers[6], numbers[7], numbers[8]
    norms = pointer_f32(numbers[9])
    order = pointer_u64(numbers[11])
    has_order = np.int64(0) if numbers[11] == 0 else np.int64(1)
    ends = pointer_i32(numbers[12])
    weights = pointer_f32(weights_at)
    scores = pointer_f32(weights_at + 4 * num_terms)
    highest = pointer_f32(weights_at + 8 * num_terms)
    boost, floor = weights[3 * num_terms], weights[3 * num_terms + 1]
    out_docs, out_scores = pointer_i32(out_docs_at), pointer_f32(out_scores_at)
    found = doc = np.int64(0)
    while doc < num_docs:
        lowest = floor if found < limit else max(floor, out_scores[0])
        if needs_all == 0:
            _choose_looked_up(table, num_terms, highest, boost, lowest)
        last = _window(table, num_terms, doc, num_docs, weights, highest, scores)
        if last < 0:
            break
        start = doc
        doc = last + 1
        if needs_all == 1 and not _has_each_word(table, num_terms, IS_HERE):
            continue
        bound = _sum(table, num_terms, scores) * boost
        if not enters(bound, np.int64(-1), found, limit, floor, out_docs, out_scores, order, has_order):
            continue
        _choose_leading(table, num_terms, leading_word, scores, boost, lowest)
        others = _start_leading(table, num_terms, start, block, has_varints, num_docs)
        if others < 0:
            return others
        only = _only_leading(table, num_terms)
        low_freq = _low_freq(
            table, num_terms, only, weights, scores, boost, found, limit, floor, out_docs, out_scores, order, has_order
        )
        while True:
            if low_freq > 0:
                _skip_low(table, only, last, low_freq)
            candidate = _next(table, num_terms, last)
            if candidate < 0:
                break
            _score_leading(table, num_terms, candidate, weights, scores, norms)
            if needs_all == 1 and not _has_each_word(table, num_terms, MAY_HIT):
                continue
            score = _sum(table, num_terms, scores) * boost
            if not enters(score, candidate, found, limit, floor, out_docs, out_scores, order, has_order):
                continue
            counts = _is_result(
                table, num_terms, numbers, candidate, others, weights, scores, norms, boost, found, floor, out_docs,
                out_scores, order, has_order, ends,
            )  # fmt: skip
            if counts < 0:
                return counts
            if counts == 1:
                score = _sum(table, num_terms, scores) * boost
                found = put(candidate, score, found, limit, out_docs, out_scores, order, has_order)
    return found
