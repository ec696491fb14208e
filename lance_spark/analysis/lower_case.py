"""Lower case."""

from __future__ import annotations


def to_lower_case(token: str) -> str:
    """`token` in lower case, each character on its own.

    Unlike `str.lower`, a sigma at the end of a word becomes the same letter as elsewhere.

    >>> to_lower_case("ΑΣ")
    'ασ'
    """
    return token.lower() if token.isascii() else "".join(character.lower() for character in token)
