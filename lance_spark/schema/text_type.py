"""Strings of Spark that are more than strings: CHAR(n), VARCHAR(n) and collations, in the metadata of their field.

Lance has neither. Other readers see a string and compare bytes, as does everything below Spark; Spark pads and checks
lengths by the declared type, and all writers of this package refuse values that are too long.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lance_spark.schema.field import Field

TEXT_TYPE = b"lance-spark:char-varchar"
"""The key of a field's metadata for its declared type, such as ``varchar(10)``."""

_DECLARED = re.compile(r"(char|varchar)\(([1-9][0-9]{0,8})\)")

COLLATION = b"lance-spark:collation"
"""The key of a field's metadata for the name of its collation, such as ``UTF8_LCASE``."""


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
    match = _DECLARED.fullmatch((declared or b"").decode("utf-8", "replace"))
    return None if match is None else TextType(int(match[2]), match[1] == "char")


def has_collation(field: Field) -> bool:
    """Whether Spark compares values of a field, or of one below it, by other rules than their bytes."""
    return COLLATION.decode() in field.metadata or any(map(has_collation, field.children))
