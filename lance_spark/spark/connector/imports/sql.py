"""Names and texts as SQL writes them."""

from __future__ import annotations

from collections.abc import Iterable


def name_in_sql(parts: Iterable[str]) -> str:
    """A name of several parts, each in quotes."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def text_in_sql(text: str) -> str:
    """A text as a constant."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
