"""Which documents of a part match a query, and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lance_spark.analysis.parameters import AS_WRITTEN, TextParameters
from lance_spark.index.text.bm25 import weights_of
from lance_spark.index.text.documents import fixed_prefix, query_tokens
from lance_spark.index.text.part import TextPart
from lance_spark.index.text.queries import MatchQuery
from lance_spark.index.text.scoring import Statistics

_POSITION_BITS = 32


@dataclass(frozen=True, slots=True)
class DocScores:
    """Matching documents of a part.

    Attributes:
        docs: int32[n], ascending.
        scores: float32[n].
    """

    docs: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float32]

    @classmethod
    def none(cls) -> DocScores:
        """No documents."""
        return cls(np.empty(0, np.int32), np.empty(0, np.float32))


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a query and the terms that it stands for.

    Attributes:
        terms: each with its own weight; several for a fuzzy word, and for tokens of the same position, such as n-grams.
    """

    terms: tuple[str, ...]


def words_of(query: MatchQuery, parameters: TextParameters, parts: Sequence[TextPart]) -> list[Word]:
    """The words of a query in order, repeated ones included.

    Fuzzy words are compared as they are written, without stemming and the other filters, as in the reference library.
    """
    if query.fuzziness == 0:
        return list(by_position(parameters, query.query).values())
    words = []
    room = query.max_expansions
    for token in query_tokens(replace(AS_WRITTEN, lance_tokenizer=parameters.lance_tokenizer), query.query):
        prefix = fixed_prefix(parameters, token.text)
        distance = _distance(token.text[prefix:]) if query.fuzziness is None else query.fuzziness
        prefix += query.prefix_length
        found = {term for part in parts for term in part.within(token.text, distance, prefix)}
        terms = sorted(found, key=str.encode)[:room]
        room -= len(terms)
        words.append(Word(tuple(terms)))
    return words


def by_position(parameters: TextParameters, text: str) -> dict[int, Word]:
    """The words of a text by their positions, in the order of the tokenizer."""
    found: dict[int, dict[str, None]] = {}
    for token in query_tokens(parameters, text):
        found.setdefault(token.position, {})[token.text] = None
    return {position: Word(tuple(terms)) for position, terms in found.items()}


def _distance(token: str) -> int:
    size = len(token.encode())
    return 0 if size <= 2 else 1 if size <= 5 else 2


def match_words(part: TextPart, words: Sequence[Word], operator: str, statistics: Statistics) -> DocScores:
    """The documents with any (OR) or all (AND) of the words."""
    if not words:
        return DocScores.none()
    if len(words) == 1:
        return _word(part, words[0], statistics)
    scores = np.zeros(part.num_docs, np.float32)
    matched = np.zeros(part.num_docs, np.int32)
    for number, word in enumerate(words):
        found = _word(part, word, statistics)
        scores[found.docs] += found.scores
        if operator == "OR":
            matched[found.docs] = len(words)
        else:
            has_all = found.docs[matched[found.docs] == number]
            matched[has_all] = number + 1
    docs = np.flatnonzero(matched == len(words))
    return DocScores(docs.astype(np.int32), scores[docs])


def _word(part: TextPart, word: Word, statistics: Statistics) -> DocScores:
    """The documents with any of the terms of a word, and the sum of the scores of its terms."""
    numbers = {term: part.find(term) for term in word.terms}
    found = sorted((number, term) for term, number in numbers.items() if number is not None)
    if not found:
        return DocScores.none()
    if len(found) == 1:
        return _term(part, *found[0], statistics)
    scores = np.zeros(part.num_docs, np.float32)
    matched = np.zeros(part.num_docs, np.bool_)
    # The order of additions is that of the reference library.
    for number, term in found:
        one = _term(part, number, term, statistics)
        scores[one.docs] += one.scores
        matched[one.docs] = True
    docs = np.flatnonzero(matched).astype(np.int32)
    return DocScores(docs, scores[docs])


def _term(part: TextPart, number: int, term: str, statistics: Statistics) -> DocScores:
    postings = part.postings(number)
    weights = weights_of(postings.freqs, part.norms(statistics.average)[postings.docs])
    return DocScores(postings.docs, statistics.idf(term) * weights)


def match_phrase(
    part: TextPart, words: Sequence[Word], gaps: Sequence[int], slop: int, statistics: Statistics
) -> DocScores:
    """The documents with the words of a phrase in order, at their distances plus at most `slop`.

    Args:
        gaps: how far each word is from the one before; the first is not used.
    """
    found = match_words(part, words, "AND", statistics)
    if len(words) < 2 or not len(found.docs):
        return found
    ends = _places(part, words[0], found.docs)
    for word, gap in zip(words[1:], gaps[1:], strict=True):
        # The place that the word has without other words between is `gap` after that of the word before.
        places = _places(part, word, found.docs)
        nearest = np.searchsorted(ends, places - gap, side="right") - 1
        is_reached = nearest >= 0
        is_reached[is_reached] = places[is_reached] - gap - ends[nearest[is_reached]] <= slop
        ends = places[is_reached]
    kept = np.unique(ends >> _POSITION_BITS)
    return DocScores(found.docs[kept], found.scores[kept])


def _places(part: TextPart, word: Word, docs: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """int64, ascending: the index in `docs` and the position of each occurrence of a word, in one number."""
    found = [_places_of_term(part, term, docs) for term in word.terms]
    return found[0] if len(found) == 1 else np.unique(np.concatenate(found))


def _places_of_term(part: TextPart, term: str, docs: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    number = part.find(term)
    if number is None:
        return np.empty(0, np.int64)
    postings = part.postings(number)
    owners = np.repeat(postings.docs, postings.freqs)
    index = np.minimum(np.searchsorted(docs, owners), len(docs) - 1)
    kept = docs[index] == owners
    places: npt.NDArray[np.int64] = index[kept].astype(np.int64) << _POSITION_BITS | part.positions(number)[kept]
    return places
