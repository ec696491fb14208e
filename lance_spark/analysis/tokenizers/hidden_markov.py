"""Words of Chinese characters that no dictionary knows, by the hidden Markov model of the package jieba."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from lance_spark.errors import UnsupportedFeatureError

_BEGIN, _END, _MIDDLE, _SINGLE = range(4)
# What the model gives to characters that it does not know.
_IMPOSSIBLE = -3.14e100
_UNKNOWN = (_IMPOSSIBLE,) * 4
_RUNS = re.compile("([\u4e00-\u9fd5]+)|[^\u4e00-\u9fd5]+")
_NUMBERS = re.compile(r"[a-zA-Z0-9]+(?:.[0-9]+)?%?")


@functools.cache
def hidden_markov_model() -> HiddenMarkovModel:
    """The model.

    Raises:
        UnsupportedFeatureError: the package jieba is not installed.
    """
    try:
        from jieba.finalseg import emit_P, start_P, trans_P
    except ImportError:
        raise UnsupportedFeatureError(
            "the tokenizer jieba needs the package jieba; install lance-spark[jieba]", feature="tokenizer jieba"
        ) from None
    return HiddenMarkovModel(start_P, trans_P, emit_P)


class HiddenMarkovModel:
    """Labels each character of a run as begin, middle or end of a word, or as a word of its own.

    Args:
        start, transitions, emissions: logarithms of probabilities by the labels B, E, M and S.
    """

    def __init__(
        self, start: dict[str, float], transitions: dict[str, dict[str, float]], emissions: dict[str, dict[str, float]]
    ) -> None:
        self._start = tuple(start[label] for label in "BEMS")
        self._transitions = transitions
        # The reference library has the same model with six decimals.
        characters = frozenset().union(*(emissions[label] for label in "BEMS"))
        self._emissions = {
            character: tuple(round(emissions[label].get(character, _IMPOSSIBLE), 6) for label in "BEMS")
            for character in characters
        }

    def words(self, text: str) -> Iterator[str]:
        """The words of characters that the dictionary leaves alone, together the text."""
        for run in _RUNS.finditer(text):
            if run[1]:
                yield from self._chinese_words(run[0])
            else:
                yield from _parts(run[0])

    def _chinese_words(self, run: str) -> Iterator[str]:
        if len(run) == 1:
            yield run
            return
        begin = 0
        done = 0
        for place, label in enumerate(self._labels(run)):
            if label == _BEGIN:
                begin = place
            elif label != _MIDDLE:
                done = place + 1
                yield run[place if label == _SINGLE else begin : done]
        if done < len(run):
            yield run[done:]

    def _labels(self, run: str) -> list[int]:
        """The likeliest labels (Viterbi's algorithm). Of equal ones the last in the order B, E, M, S wins."""
        moves = self._transitions
        single_to_begin, end_to_begin = moves["S"]["B"], moves["E"]["B"]
        begin_to_end, middle_to_end = moves["B"]["E"], moves["M"]["E"]
        begin_to_middle, middle_to_middle = moves["B"]["M"], moves["M"]["M"]
        single_to_single, end_to_single = moves["S"]["S"], moves["E"]["S"]
        seen = self._emissions.get(run[0], _UNKNOWN)
        begin, end, middle, single = (first + own for first, own in zip(self._start, seen, strict=True))
        before: list[tuple[int, int, int, int]] = []
        for character in run[1:]:
            seen = self._emissions.get(character, _UNKNOWN)
            begins = (end + end_to_begin + seen[0], single + single_to_begin + seen[0])
            ends = (begin + begin_to_end + seen[1], middle + middle_to_end + seen[1])
            middles = (begin + begin_to_middle + seen[2], middle + middle_to_middle + seen[2])
            singles = (end + end_to_single + seen[3], single + single_to_single + seen[3])
            before.append(
                (
                    _SINGLE if begins[1] >= begins[0] else _END,
                    _MIDDLE if ends[1] >= ends[0] else _BEGIN,
                    _MIDDLE if middles[1] >= middles[0] else _BEGIN,
                    _SINGLE if singles[1] >= singles[0] else _END,
                )
            )
            begin, end, middle, single = max(begins), max(ends), max(middles), max(singles)
        labels = [_SINGLE if single >= end else _END]
        for choice in reversed(before):
            labels.append(choice[labels[-1]])
        labels.reverse()
        return labels


def _parts(text: str) -> Iterator[str]:
    """Numbers and Latin words, and what is between them."""
    done = 0
    for found in _NUMBERS.finditer(text):
        if found.start() > done:
            yield text[done : found.start()]
        yield found[0]
        done = found.end()
    if done < len(text):
        yield text[done:]
