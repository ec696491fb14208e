"""NGRAM: for each run of three letters or digits (trigram) the rows whose text has it.

``ngram_postings.lance`` has the columns `tokens` (ascending) and `posting_list` (treemaps). Texts are put into lower
case and folded to ASCII before they are cut; a trigram with any other character is left out. A row that has a text has
all of its trigrams, so the intersection of their rows is a superset of the answer.

Only trigrams of the searched text that are ASCII as they are written are looked up: whatever folding does to the
characters around them, it keeps these three side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyroaring

from lance_spark.expr.nodes import And, Column, Expr, Like, StringMatch, like_tokens
from lance_spark.index.base import Fit, Predicate, ScalarIndex, SearchResult
from lance_spark.index.files import IndexFile, IndexFiles, require_no_nulls
from lance_spark.index.row_set import RowSet, read_treemap
from lance_spark.layouts.base import RowRanges

POSTINGS_FILE = "ngram_postings.lance"
_LENGTH = 3
_BASE = 37
_MAX_ROWS = 1 << 40

_FEW_ROWS = 8
"""So few candidates are read and checked rather than narrowed by another trigram: to read a row of another fragment
costs as much as ten sets of rows."""

_SELECTIVE_SHARE = 1 / 2
"""If more of the rows are candidates, reading the column is cheaper."""

_CHARACTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
_NUMBERS = {character: number for number, character in enumerate(_CHARACTERS, 1)}


class NGramIndex(ScalarIndex):
    """A segment of an NGRAM index."""

    type_name = "NGRAM"
    type_url = "/lance.table.NGramIndexDetails"
    max_version = 0
    loses_moved_rows = True

    @classmethod
    def holds_row_ids(cls, version: int) -> bool:
        return version < 1

    @classmethod
    def fit(cls, predicate: Predicate) -> Fit:
        return Fit.SUPERSET if required_trigrams(predicate.expr) else Fit.NONE

    def search(self, predicate: Predicate) -> SearchResult | None:
        file = self._files.open(POSTINGS_FILE)
        tokens = file.kept("tokens", lambda: _load(file))
        wanted = np.array(sorted(required_trigrams(predicate.expr)), np.uint32)
        places = np.searchsorted(tokens, wanted)
        is_known = places < len(tokens)
        is_known[is_known] = tokens[places[is_known]] == wanted[is_known]
        if not is_known.all():
            return SearchResult(RowSet.empty(), is_exact=False)
        treemaps = file.kept_rows("posting", places.tolist(), lambda missing: _read_treemaps(file, missing))
        most = int(sum(self._coverage.fragment_rows.values()) * _SELECTIVE_SHARE)
        rows = RowSet.common_to_treemaps(treemaps, enough=_FEW_ROWS, most=most)
        return None if rows is None else SearchResult(rows, is_exact=False)


def _read_treemaps(file: IndexFile, places: Sequence[int]) -> list[tuple[pyroaring.BitMap64, int]]:
    """The rows of ascending tokens, and their sizes."""
    firsts = np.array(places, np.int64)
    (cells,) = file.columns({"posting_list": pa.binary()}, RowRanges(firsts, firsts + 1))
    require_no_nulls(file, [cells])
    return [(read_treemap(data, _MAX_ROWS), len(data)) for data in cells.to_pylist()]


def read_postings(files: IndexFiles) -> tuple[npt.NDArray[np.uint32], list[RowSet]]:
    """All tokens of a segment (uint32[n]) and the rows of each.

    Raises:
        LanceError: the file is missing or broken.
    """
    file = files.open(POSTINGS_FILE)
    tokens, _ = _load(file)
    (cells,) = file.columns_in_chunks({"posting_list": pa.binary()})
    require_no_nulls(file, cells.chunks)
    return tokens, [RowSet.of_treemap(cell.as_py(), _MAX_ROWS) for cell in cells]


def _load(file: IndexFile) -> tuple[npt.NDArray[np.uint32], int]:
    (column,) = file.columns({"tokens": pa.uint32()})
    require_no_nulls(file, [column])
    tokens: npt.NDArray[np.uint32] = column.to_numpy()
    if not bool(np.all(tokens[1:] > tokens[:-1])):
        raise file.damaged("the tokens are not in order")
    return tokens, tokens.nbytes


def required_trigrams(expr: Expr) -> frozenset[int]:
    """The numbers of trigrams that every text has for which a condition is TRUE; none if nothing is known.

    >>> from lance_spark.expr.sql.parse import parse
    >>> sorted(required_trigrams(parse("s LIKE '%00_A0b%'")))
    [15108]
    """
    if isinstance(expr, And):
        return frozenset().union(*map(required_trigrams, expr.terms))
    return frozenset(number for text in _required_texts(expr) for number in _trigrams(text))


def _required_texts(expr: Expr) -> Iterator[str]:
    if isinstance(expr, StringMatch) and isinstance(expr.value, Column):
        yield expr.text
    elif isinstance(expr, Like) and isinstance(expr.value, Column):
        yield from (text for is_wildcard, text in like_tokens(expr.pattern, expr.escape) if not is_wildcard)


def _trigrams(text: str) -> Iterator[int]:
    numbers = [_NUMBERS.get(character.lower(), 0) if character.isascii() else 0 for character in text]
    for place in range(len(text) - _LENGTH + 1):
        window = numbers[place : place + _LENGTH]
        if all(window):
            yield window[0] * _BASE * _BASE + window[1] * _BASE + window[2]
