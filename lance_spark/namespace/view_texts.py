"""Definitions of views as every catalog keeps them: texts that are JSON objects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lance_spark.errors import CorruptFileError, InvalidInputError, NotFoundError
from lance_spark.namespace.object_id import Identifier, checked, format_identifier

VIEW_DEFINITION = "lance_spark.view"
"""The property of an object in a catalog that is the definition of a view."""

MAX_DEFINITION = 2**20
"""Bytes of a definition in any catalog."""


def view_identifier(identifier: Identifier) -> Identifier:
    """Returns a name that a view can have: Spark cannot read a view whose name has no namespace.

    Raises:
        InvalidInputError: the name is not valid, or has no namespace.
    """
    identifier = checked(identifier)
    if len(identifier) == 1:
        name = format_identifier(identifier)
        raise InvalidInputError(f"the view {name} needs a namespace, such as default.{name}")
    return identifier


def require_size(identifier: Identifier, definition: str, limit: int = MAX_DEFINITION) -> None:
    """Raises `InvalidInputError` if a definition is no Unicode, or has more bytes than the limit."""
    try:
        size = len(definition.encode())
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"the view {format_identifier(identifier)} has text that is not Unicode") from error
    if size > limit:
        raise InvalidInputError(
            f"the definition of the view {format_identifier(identifier)} has more than {limit} bytes; put its "
            "constants into a table"
        )


def readable_definition(identifier: Identifier, text: str | None, where: str) -> str:
    """Returns the text of a definition that a catalog has sent.

    Raises:
        CorruptFileError: it is missing, too large or no JSON object.
    """
    try:
        if text is None:
            raise ValueError("a part of it is missing")
        if len(text.encode()) > MAX_DEFINITION:
            raise ValueError(f"more than {MAX_DEFINITION} bytes")
        if not isinstance(json.loads(text), dict):
            raise ValueError("no JSON object")
    except (ValueError, RecursionError) as error:
        raise unreadable_view(format_identifier(identifier), where, error) from error
    return text


def unreadable_view(name: str, where: str, error: Exception) -> CorruptFileError:
    """An error: the definition of a view is no definition."""
    return CorruptFileError(
        f"the definition of the view {name}{where} is unreadable ({error}); CREATE OR REPLACE VIEW or DROP VIEW "
        "repairs it"
    )


def no_view(identifier: Identifier) -> NotFoundError:
    """The error that says so."""
    return NotFoundError(f"there is no view {format_identifier(identifier)}")


def view_fields(definition: str) -> Mapping[str, Any]:
    """The fields of a definition; none if it is no JSON object."""
    try:
        fields = json.loads(definition)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def view_query(definition: str) -> str:
    """The text of the SELECT of a definition; empty if it has none."""
    query = view_fields(definition).get("query")
    return query if isinstance(query, str) else ""
