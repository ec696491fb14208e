"""jieba/NAME: Chinese words of a dictionary, as the reference library finds them."""

from __future__ import annotations

import functools
import json
import math
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lance_spark.analysis.parameters import TextParameters
from lance_spark.analysis.tokenizers.base import Cut, Tokenizer, decoded
from lance_spark.errors import InvalidInputError, UnsupportedFeatureError

_IDEOGRAPHS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002ebef\U0002f800-\U0002fa1f"
_BLOCKS = re.compile(rf"([{_IDEOGRAPHS}a-zA-Z0-9+#&._%\-]+)|\r\n|.", re.DOTALL)

VARIABLE = "LANCE_LANGUAGE_MODEL_HOME"
"""The environment variable with the folder of all dictionaries."""

_BEGIN, _END, _MIDDLE, _SINGLE = range(4)
# What the model gives to characters that it does not know.
_IMPOSSIBLE = -3.14e100
_UNKNOWN = (_IMPOSSIBLE,) * 4
_RUNS = re.compile("([\u4e00-\u9fd5]+)|[^\u4e00-\u9fd5]+")
_NUMBERS = re.compile(r"[a-zA-Z0-9]+(?:.[0-9]+)?%?")


def jieba_tokenizer(parameters: TextParameters) -> Tokenizer:
    """Words, and in words of three characters or more also the words of two and three characters that they contain.

    The position of a token is the place of its first character in the text; whitespace and punctuation are tokens.

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


class JiebaDictionary:
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
            likeliest: tuple[float, int] | None = None
            end = start + 1
            word = block[start:end]
            while end <= num_characters and word in logs:
                log = logs[word]
                if log is not None:
                    sum_of_logs = log - log_total + best[end][0]
                    # Of equal ones the longest word wins.
                    if likeliest is None or not sum_of_logs < likeliest[0]:
                        likeliest = (sum_of_logs, end)
                end += 1
                word = block[start:end]
            best[start] = likeliest or (0.0 - log_total + best[start + 1][0], start + 1)
        ends = []
        place = 0
        while place < num_characters:
            place = best[place][1]
            ends.append(place)
        return ends


@functools.lru_cache(maxsize=4)
def _dictionary(folder: Path) -> JiebaDictionary:
    """The dictionary of a folder, read once by a process: `dict.txt`, or the files that `config.json` names."""
    config = folder / "config.json"
    try:
        settings = json.loads(config.read_bytes()) if config.exists() else {}
        names = [settings.get("main") or "dict.txt", *(settings.get("users") or [])]
        frequencies: dict[str, int] = {}
        for name in names:
            frequencies.update(_entries(folder / name))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InvalidInputError(f"the dictionary in {folder} cannot be read: {error}") from error
    return JiebaDictionary(frequencies)


def _entries(path: Path) -> Iterator[tuple[str, int]]:
    with path.open(encoding="utf-8", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            word, frequency, *_ = (*line.split(), "", "")
            if not frequency.isdecimal() and frequency:
                raise ValueError(f"{path.name}, line {number}: the frequency {frequency!r} is no number")
            if word:
                yield word, int(frequency or 0)


def _tokens(text: str, dictionary: JiebaDictionary, model: HiddenMarkovModel) -> Iterator[tuple[str, int]]:
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


def _words(block: str, dictionary: JiebaDictionary, model: HiddenMarkovModel) -> Iterator[str]:
    """The words of a block; characters that are no part of a longer word go through the model together."""
    start = alone = 0
    for end in dictionary.likeliest(block):
        if end - start > 1:
            yield from _rest(block[alone:start], dictionary, model)
            yield block[start:end]
            alone = end
        start = end
    yield from _rest(block[alone:], dictionary, model)


def _rest(characters: str, dictionary: JiebaDictionary, model: HiddenMarkovModel) -> Iterator[str]:
    # A word of the dictionary whose characters are likelier alone stays cut.
    if len(characters) < 2 or characters in dictionary:
        yield from characters
    else:
        yield from model.words(characters)


def model_folder(name: str) -> Path:
    """The folder of the dictionary of a tokenizer such as ``jieba/default``.

    Raises:
        UnsupportedFeatureError: there is no such folder.
    """
    home = os.environ.get(VARIABLE)
    folder = (Path(home) if home is not None else _user_data() / "lance" / "language_models") / name
    if not folder.is_dir():
        raise UnsupportedFeatureError(
            f"the tokenizer {name!r} needs its dictionary in {folder}; {VARIABLE} sets the folder of all dictionaries",
            feature=f"tokenizer {name}",
        )
    return folder


def _user_data() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    data = os.environ.get("XDG_DATA_HOME", "")
    return Path(data) if os.path.isabs(data) else Path.home() / ".local" / "share"


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
    for match in _NUMBERS.finditer(text):
        if match.start() > done:
            yield text[done : match.start()]
        yield match[0]
        done = match.end()
    if done < len(text):
        yield text[done:]
