"""Values of options: from text, with what is expected as the message of a `ValueError`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from lance_spark.errors import InvalidInputError
from lance_spark.file_version import FileVersion

STATIC, DYNAMIC = "static", "dynamic"
"""Values of partitionOverwriteMode: an overwrite replaces all rows, or only partitions with new rows."""


def text_value(value: str) -> str:
    """Text that is not empty, without blanks around it. Raises `ValueError` saying what is expected."""
    if not value.strip():
        raise ValueError("a text that is not empty")
    return value.strip()


def integer_value(minimum: int) -> Callable[[str], int]:
    """Parses whole numbers from `minimum` on, below 2**63. Raises `ValueError` saying what is expected."""

    def parse(value: str) -> int:
        text = value.strip()
        if not re.fullmatch(r"\d{1,19}", text, re.ASCII) or not minimum <= int(text) < 2**63:
            raise ValueError(f"an integer of at least {minimum}")
        return int(text)

    return parse


def boolean_value(value: str) -> bool:
    """True or false. Raises `ValueError` saying what is expected."""
    known = {"true": True, "false": False}
    if value.strip().lower() not in known:
        raise ValueError("true or false")
    return known[value.strip().lower()]


def columns_value(value: str) -> tuple[str, ...]:
    """A list of columns, as in ``id,point.x``. Raises `ValueError` saying what is expected."""
    names = tuple(name.strip() for name in re.split(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)", value))
    if not all(names) or value.count("`") % 2:
        raise ValueError("a list of columns such as id,point.x")
    return names


def timestamp_value(value: str) -> datetime:
    """A moment in ISO format. Raises `ValueError` saying what is expected."""
    try:
        return datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
    except ValueError:
        raise ValueError("a time such as 2026-11-21T10:00:00+00:00") from None


def file_version_value(value: str) -> str:
    """A file version by its number. Raises `ValueError` saying what is expected."""
    return FileVersion.parse(value.strip()).value


def distribution_value(value: str) -> str:
    """A distribution of the rows of a write. Raises `ValueError` saying what is expected."""
    folded = value.strip().lower()
    if folded not in {"none", "hash", "range"}:
        raise ValueError("none, hash or range")
    return folded


def overwrite_mode_value(value: str) -> str:
    """A partition overwrite mode. Raises `ValueError` saying what is expected."""
    folded = value.strip().lower()
    if folded not in {STATIC, DYNAMIC}:
        raise ValueError(f"{STATIC} or {DYNAMIC}")
    return folded


def word_value(name: str, *words: str) -> Callable[[str], str]:
    """Parses one of some words, for an option that is a property of tables too. Raises `InvalidInputError`."""

    def parse(value: str) -> str:
        word = value.strip().lower()
        if word not in words:
            raise InvalidInputError(f"{name} is {value!r}; it is {' or '.join(words)}")
        return word

    return parse


@dataclass(frozen=True, slots=True)
class Option:
    """An option: the attribute that it sets, and how its value is parsed.

    Attributes:
        attribute: None if the value is only checked and has no effect.
        name: as the pages spell it.
    """

    attribute: str | None
    parse: Callable[[str], Any]
    name: str = ""


def by_folded_name(options: Mapping[str, Option]) -> dict[str, Option]:
    """Options by their names in lower case, in which they are looked up; each keeps the spelling in `options`."""
    return {name.lower(): replace(option, name=name) for name, option in options.items()}


def nearest_option(name: str, known: Mapping[str, Option], cutoff: float) -> str | None:
    """The known option whose name is most like `name`, as the pages spell it; None if none is."""
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=cutoff)
    return known[near[0]].name if near else None
