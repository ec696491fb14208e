"""CHAR(n) and VARCHAR(n): strings whose declared type is in the metadata of their field.

Lance has no such types. Other readers see a string; Spark pads and checks lengths by the declared type, and all writers
of this package refuse values that are too long.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TEXT_TYPE = b"lance-spark:char-varchar"
"""The key of a field's metadata for its declared type, such as ``varchar(10)``."""

_DECLARED = re.compile(r"(char|varchar)\(([1-9][0-9]{0,8})\)")


@dataclass(frozen=True, slots=True)
class TextType:
    """A declared type.

    Attributes:
        length: most characters of a value.
        is_char: whether shorter values are padded with spaces when Spark reads them.
    """

    length: int
    is_char: bool

    def __str__(self) -> str:
        return f"{'CHAR' if self.is_char else 'VARCHAR'}({self.length})"


def text_type(declared: bytes | None) -> TextType | None:
    """The type that a field's entry `TEXT_TYPE` declares; None for strings of any length and unknown declarations."""
    found = _DECLARED.fullmatch((declared or b"").decode("utf-8", "replace"))
    return None if found is None else TextType(int(found[2]), found[1] == "char")
