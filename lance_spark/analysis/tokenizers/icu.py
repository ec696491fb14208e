"""icu and icu/split: words by the rules of Unicode (UAX #29), for scripts that need no dictionary."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from lance_spark.analysis.alphabet import alphanumeric, word_break_classes
from lance_spark.analysis.parameters import TextParameters
from lance_spark.analysis.tokenizers.base import Cut, Tokenizer, decoded
from lance_spark.errors import UnsupportedFeatureError

# A letter for each class of characters: Hebrew and other letters, Numbers, connectors such as the Underscore, Middle of
# letters, middle of numbers, Both, Single and Double quotes, eXtending marks, Zero width joiner, White space, Regional
# indicators, Pictographs, Q: letters that are pictographs, newlines. `_MARKS` belong to the character before them.
_MARKS = rb"[XZ]*"
_ITEM = rb"""
    (?: U {e} | H {e} D {e} (?=H) | [AQH] {e} (?: [MBS] {e} (?=[AQH]) )? | N {e} (?: [mBS] {e} (?=N) )? )
"""
_WORD = rb"(?: {item}* (?: H {e} S {e} | {item} ) )"
_SEGMENT = rb"""
    (?: {word} | W+ {e} | R {e} R {e} | [^n] {e} | n ) (?: (?<=Z) (?: P {e} | (?=Q) {word} ) )*
"""
_DICTIONARY_CLASS = b"C"
_LETTERS = re.compile(rb"\x01+")


def icu_tokenizer(parameters: TextParameters) -> Tokenizer:
    """Segments with a letter or digit; icu/split cuts them again at all other characters.

    Raises, when it cuts:
        UnsupportedFeatureError: a text has characters of a script whose words only a dictionary knows.
    """
    pattern = _segments()
    is_split = parameters.base_tokenizer == "icu/split"

    def cut(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Cut:
        texts = [list(_tokens(text, pattern, is_split=is_split)) for text in decoded(data, offsets)]
        return Cut.of_words([[(word, position) for position, word in enumerate(words)] for words in texts])

    return cut


def _segments() -> re.Pattern[bytes]:
    item = _ITEM.replace(b"{e}", _MARKS)
    word = _WORD.replace(b"{item}", item).replace(b"{e}", _MARKS)
    return re.compile(_SEGMENT.replace(b"{word}", word).replace(b"{e}", _MARKS), re.VERBOSE)


def _tokens(text: str, pattern: re.Pattern[bytes], *, is_split: bool) -> Iterator[str]:
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    classes = word_break_classes()[points].tobytes()
    place = classes.find(_DICTIONARY_CLASS)
    if place >= 0:
        raise UnsupportedFeatureError(
            f"the tokenizer icu cuts no Chinese, Japanese, Thai, Lao, Khmer and Burmese texts: {text[place]!r} needs "
            "a dictionary; use ngram, or jieba for Chinese",
            feature="tokenizer icu",
        )
    is_letter = alphanumeric()[points].tobytes()
    for segment in pattern.finditer(classes):
        start, stop = segment.span()
        if not is_split:
            if 1 in is_letter[start:stop]:
                yield text[start:stop]
            continue
        for run in _LETTERS.finditer(is_letter, start, stop):
            yield text[run.start() : run.end()]
