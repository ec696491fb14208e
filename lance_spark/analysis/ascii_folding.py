# ruff: noqa: RUF001
"""Replacing accented letters and ligatures by ASCII letters."""

from __future__ import annotations

import functools
import unicodedata

_SPECIAL = {
    "ß": "ss", "ẞ": "SS", "Æ": "AE", "æ": "ae", "Œ": "OE", "œ": "oe", "Ø": "O", "ø": "o", "Ł": "L", "ł": "l",
    "Đ": "D", "Ð": "D", "đ": "d", "ð": "d", "Þ": "TH", "þ": "th", "Ħ": "H", "ħ": "h", "Ŧ": "T", "ŧ": "t",
    "Ŋ": "N", "ŋ": "n", "ı": "i", "ĸ": "k", "ſ": "s",
}  # fmt: skip


def fold_to_ascii(token: str) -> str:
    """`token` with each character replaced by its ASCII form, if it has one.

    >>> fold_to_ascii("Ærø déjà 東京")
    'AEro deja 東京'
    """
    return token if token.isascii() else "".join(map(_folded, token))


@functools.lru_cache(maxsize=4096)
def _folded(character: str) -> str:
    if character.isascii():
        return character
    if character in _SPECIAL:
        return _SPECIAL[character]
    parts = unicodedata.normalize("NFKD", character)
    return "".join(part if part.isascii() else _SPECIAL.get(part, "") for part in parts) or character
