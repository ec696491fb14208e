"""jieba/NAME: Chinese words of a dictionary, as the reference library finds them."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lance_spark.analysis.parameters import TextParameters
from lance_spark.analysis.tokenizers.base import Cut, Tokenizer, decoded
from lance_spark.analysis.tokenizers.hidden_markov import HiddenMarkovModel, hidden_markov_model
from lance_spark.analysis.tokenizers.language_models import model_folder
from lance_spark.errors import InvalidInputError

_IDEOGRAPHS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002ebef\U0002f800-\U0002fa1f"
_BLOCKS = re.compile(rf"([{_IDEOGRAPHS}a-zA-Z0-9+#&._%\-]+)|\r\n|.", re.DOTALL)


def jieba_tokenizer(parameters: TextParameters) -> Tokenizer:
    """Words, and in words of three characters or more also the words of two and three characters that they contain.

    The position of a token is that of its first character in the text, whitespace and punctuation are tokens.

    Raises:
        UnsupportedFeatureError: the dictionary or the package jieba is not there.
        InvalidInputError: the dictionary cannot be read.
    """
    name = parameters.base_tokenizer
    dictionary = _dictionary(model_folder("jieba/default" if name == "jieba" else name))
    model = hidden_markov_model()

    def cut(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Cut:
        return Cut.of_words([list(_tokens(text, dictionary, model)) for text in decoded(data, offsets)])

    return cut


class Dictionary:
    """Words and their frequencies.

    Args:
        frequencies: how often each word occurs.
    """

    def __init__(self, frequencies: dict[str, int]) -> None:
        total = sum(frequencies.values())
        self._log_total = math.log(total) if total else -math.inf
        # The beginnings of words that are not words themselves have None.
        self._logs: dict[str, float | None] = {}
        for word, frequency in frequencies.items():
            for size in range(1, len(word)):
                self._logs.setdefault(word[:size], None)
            self._logs[word] = math.log(frequency) if frequency else -math.inf

    def __contains__(self, word: str) -> bool:
        return self._logs.get(word) is not None

    def likeliest(self, block: str) -> list[int]:
        """Ends of the words in the most probable segmentation."""
        logs, log_total = self._logs, self._log_total
        num_characters = len(block)
        best = [(0.0, 0)] * (num_characters + 1)
        for start in range(num_characters - 1, -1, -1):
            found: tuple[float, int] | None = None
            end = start + 1
            word = block[start:end]
            while end <= num_characters and word in logs:
                log = logs[word]
                if log is not None:
                    sum_of_logs = log - log_total + best[end][0]
                    # Of equal ones the longest word wins.
                    if found is None or not sum_of_logs < found[0]:
                        found = (sum_of_logs, end)
                end += 1
                word = block[start:end]
            best[start] = found or (0.0 - log_total + best[start + 1][0], start + 1)
        ends = []
        place = 0
        while place < num_characters:
            place = best[place][1]
            ends.append(place)
        return ends


@functools.lru_cache(maxsize=4)
def _dictionary(folder: Path) -> Dictionary:
    """The dictionary of a folder, read once by a process: `dict.txt`, or the files that `config.json` names."""
    config = folder / "config.json"
    try:
        found = json.loads(config.read_bytes()) if config.exists() else {}
        names = [found.get("main") or "dict.txt", *(found.get("users") or [])]
        frequencies: dict[str, int] = {}
        for name in names:
            frequencies.update(_entries(folder / name))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InvalidInputError(f"the dictionary in {folder} cannot be read: {error}") from error
    return Dictionary(frequencies)


def _entries(path: Path) -> Iterator[tuple[str, int]]:
    with path.open(encoding="utf-8", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            word, frequency, *_ = (*line.split(), "", "")
            if not frequency.isdecimal() and frequency:
                raise ValueError(f"{path.name}, line {number}: the frequency {frequency!r} is no number")
            if word:
                yield word, int(frequency or 0)


def _tokens(text: str, dictionary: Dictionary, model: HiddenMarkovModel) -> Iterator[tuple[str, int]]:
    place = 0
    for block in _BLOCKS.finditer(text):
        for word in _words(block[0], dictionary, model) if block[1] else (block[0],):
            for size in (2, 3):
                # The words that it contains.
                for start in range(len(word) - size + 1 if len(word) > size else 0):
                    part = word[start : start + size]
                    if part in dictionary:
                        yield part, place + start
            yield word, place
            place += len(word)


def _words(block: str, dictionary: Dictionary, model: HiddenMarkovModel) -> Iterator[str]:
    """The words of a block; characters that are no part of a longer word go through the model together."""
    start = alone = 0
    for end in dictionary.likeliest(block):
        if end - start > 1:
            yield from _rest(block[alone:start], dictionary, model)
            yield block[start:end]
            alone = end
        start = end
    yield from _rest(block[alone:], dictionary, model)


def _rest(characters: str, dictionary: Dictionary, model: HiddenMarkovModel) -> Iterator[str]:
    # A word of the dictionary whose characters are likelier alone stays cut.
    if len(characters) < 2 or characters in dictionary:
        yield from characters
    else:
        yield from model.words(characters)
