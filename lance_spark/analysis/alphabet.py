"""Which characters belong to words."""

from __future__ import annotations

import functools
from importlib.resources import files

import numpy as np
import numpy.typing as npt

_NUM_CODE_POINTS = 0x110000
_WHITESPACE = "\t\n\f\r "


@functools.cache
def alphanumeric() -> npt.NDArray[np.uint8]:
    """uint8[0x110000]: 1 for letters and digits of any script, by Unicode's Alphabetic property and numeric categories.

    The table is stored and not made from `unicodedata`, which has another version of Unicode in each Python.
    """
    classes = np.zeros(_NUM_CODE_POINTS, np.uint8)
    text = files("lance_spark.analysis").joinpath("data/alphanumeric.txt").read_text("ascii")
    for run in text.split():
        first, _, last = run.partition("-")
        classes[int(first, 16) : int(last or first, 16) + 1] = 1
    return classes


@functools.cache
def not_whitespace() -> npt.NDArray[np.uint8]:
    """uint8[0x110000]: 0 for space, tab, line feed, form feed and carriage return; 1 for all other characters."""
    classes = np.ones(_NUM_CODE_POINTS, np.uint8)
    classes[[ord(character) for character in _WHITESPACE]] = 0
    return classes
