"""Storage options: translation of Lance names into arguments of the clients.

Users of Lance write ``aws_access_key_id`` or ``access_key_id`` where s3fs says ``key``; names are case-insensitive,
several names may be aliases, and all values are text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lance_spark.errors import InvalidInputError

RENEWAL = "lance_spark.renewal"
"""The storage option that says which catalog sends the others, for which table (`namespace.opening`)."""

EXPIRES = "expires_at_millis"
"""The storage option with the moment at which the others end, in milliseconds since 1970."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|millis\w*|s|secs?|seconds?|m|mins?|minutes?)?")


@dataclass(frozen=True, slots=True)
class ClientArgument:
    """The target of an option: a path of keys in the client's arguments, and a parser of its text."""

    keys: tuple[str, ...]
    read: Callable[[str], Any] = str


def translate(
    service: str, options: Mapping[str, str], targets: Mapping[str, ClientArgument], ignored: frozenset[str]
) -> dict[str, Any]:
    """The arguments of a client.

    Args:
        service: name of the service, for messages.
        options: as the user passed them.
        targets: lower-case option name -> target.
        ignored: lower-case names that other Lance libraries support and that have no effect here.

    Raises:
        InvalidInputError: an unknown name (the message suggests the closest known one), a value that cannot be parsed,
            or two aliases with different values. Values are never in a message: they may be secrets.
    """
    arguments: dict[str, Any] = {}
    origin: dict[tuple[str, ...], str] = {}
    for name, text in sorted(options.items()):
        target = targets.get(name.lower())
        if target is None:
            if name.lower() not in ignored:
                raise _unknown(service, name, targets)
            continue
        _place(arguments, origin, target.keys, parsed(name, text, target.read), name)
    return arguments


def parsed(name: str, text: str, read: Callable[[str], Any]) -> Any:
    """The value of option `name`.

    Raises:
        InvalidInputError: `read` raised a ValueError.
    """
    try:
        return read(text)
    except ValueError as error:
        raise InvalidInputError(f"storage option {name!r}: {error}") from None


def boolean(text: str) -> bool:
    """A boolean, in the spellings that the Lance libraries accept."""
    folded = text.strip().lower()
    if folded in ("true", "1", "yes", "on", "y"):
        return True
    if folded in ("false", "0", "no", "off", "n"):
        return False
    raise ValueError("neither true nor false")


def json_object(text: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        raise ValueError("not JSON") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def seconds(text: str) -> float:
    """A duration such as ``30``, ``30s``, ``500 ms`` or ``2 minutes``, in seconds."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError("not a duration such as 30s")
    unit = match[2] or "s"
    factor = 0.001 if unit.startswith(("ms", "milli")) else 60.0 if unit.startswith("m") else 1.0
    return float(match[1]) * factor


def check_known(service: str, options: Mapping[str, str], known: Collection[str]) -> None:
    """Checks that all names of `options` are in `known`, ignoring case.

    Raises:
        InvalidInputError: an unknown name; the message suggests the closest known one.
    """
    for name in options:
        if name.lower() not in known:
            raise _unknown(service, name, known)


def _place(
    arguments: dict[str, Any], origin: dict[tuple[str, ...], str], keys: tuple[str, ...], value: Any, name: str
) -> None:
    place = arguments
    for key in keys[:-1]:
        place = place.setdefault(key, {})
    if isinstance(value, dict) and isinstance(place.get(keys[-1]), dict):
        # A JSON object under the client's own name, next to options that belong in the same object.
        for key, inner in value.items():
            _place(arguments, origin, (*keys, key), inner, name)
        return
    if place.get(keys[-1], value) != value:
        raise InvalidInputError(f"storage options {origin.get(keys, keys[-1])!r} and {name!r} contradict each other")
    place[keys[-1]] = value
    origin[keys] = name


def _unknown(service: str, name: str, targets: Iterable[str]) -> InvalidInputError:
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), list(targets), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return InvalidInputError(f"unknown storage option {name!r} for {service}{hint}")
