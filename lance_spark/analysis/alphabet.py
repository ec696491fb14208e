"""Which characters belong to words."""

from __future__ import annotations

import functools
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from lance_spark.kernels.text.code import DIGIT, LOWER, OPERATOR, UNDERSCORE, UPPER, WORD

_NUM_CODE_POINTS = 0x110000
_WHITESPACE = "\t\n\f\r "
_OPERATORS = "!%&*+-/:<=>?^|~"


@functools.cache
def alphanumeric() -> npt.NDArray[np.uint8]:
    """uint8[0x110000]: 1 for letters and digits of any script, by Unicode's Alphabetic property and numeric categories.

    The table is stored and not made from `unicodedata`, which has another version of Unicode in each Python.
    """
    classes = np.zeros(_NUM_CODE_POINTS, np.uint8)
    for first, last in alphanumeric_runs():
        classes[first : last + 1] = 1
    return classes


def alphanumeric_runs() -> list[tuple[int, int]]:
    """The first and the last code point of each run of letters and digits, ascending."""
    text = _stored("alphanumeric.txt")
    parts = (run.partition("-") for run in text.split())
    return [(int(first, 16), int(last or first, 16)) for first, _, last in parts]


@functools.cache
def not_whitespace() -> npt.NDArray[np.uint8]:
    """uint8[0x110000]: 0 for space, tab, line feed, form feed and carriage return; 1 for all other characters."""
    classes = np.ones(_NUM_CODE_POINTS, np.uint8)
    classes[[ord(character) for character in _WHITESPACE]] = 0
    return classes


@functools.cache
def code_classes() -> npt.NDArray[np.uint8]:
    """uint8[0x110000]: the classes of characters for the kernel that cuts source code."""
    classes: npt.NDArray[np.uint8] = alphanumeric().copy()
    for line in _stored("letter_case.txt").splitlines():
        name, *runs = line.split()
        for run in runs:
            bounds, _, step = run.partition("/")
            first, _, last = bounds.partition("-")
            classes[int(first, 16) : int(last or first, 16) + 1 : int(step or 1)] |= UPPER if name == "upper" else LOWER
    classes[ord("0") : ord("9") + 1] |= DIGIT
    classes[ord("_")] = WORD | UNDERSCORE
    classes[[ord(character) for character in _OPERATORS]] = OPERATOR
    return classes


@functools.cache
def word_break_classes() -> npt.NDArray[np.uint8]:
    """uint8[0x110000]: a letter for each character's class at word boundaries; C: a dictionary is needed, o: other."""
    classes = np.full(_NUM_CODE_POINTS, ord("o"), np.uint8)
    for line in _stored("word_break.txt").splitlines():
        name, *runs = line.split()
        for run in runs:
            first, _, last = run.partition("-")
            classes[int(first, 16) : int(last or first, 16) + 1] = ord(name)
    return classes


def _stored(name: str) -> str:
    return files("lance_spark.analysis").joinpath(f"data/{name}").read_text("ascii")
