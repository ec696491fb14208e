"""Views of ours as Glue and Hive's metastore keep them: tables of type ``VIRTUAL_VIEW`` with our definition in their
parameters.

The text of the query is where consoles show it, ``ViewOriginalText``. A tool that changes the view changes that text
and may leave our parameters, so a view is ours only as long as both say the same.

>>> parts = split_definition('{"query":"é"}', 8)
>>> parts
{'lance_spark.view.numParts': '3', 'lance_spark.view.part.0': '{"query"', 'lance_spark.view.part.1': ':"\\\\u00e9', \
'lance_spark.view.part.2': '"}'}
>>> joined_definition(parts)
'{"query":"\\\\u00e9"}'
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from lance_spark.namespace.external.catalog import CREATION
from lance_spark.namespace.view_texts import VIEW_DEFINITION, view_fields, view_query

VIRTUAL_VIEW = "VIRTUAL_VIEW"

UNSHOWN_QUERY = "-- The query of this view is too long to be shown here; lance-spark reads it from the parameters"
"""A text that no tool can run, in place of a longer one than the catalog keeps."""

_PARTS = f"{VIEW_DEFINITION}.numParts"
_PART = f"{VIEW_DEFINITION}.part."
_MOST_PARTS = 10_000
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


def split_definition(definition: str, size: int) -> dict[str, str]:
    """The parameters that hold a definition where a value has at most `size` characters of ASCII."""
    text = ascii_text(definition)  # Of a JSON object; the same object.
    parts = [text[start : start + size] for start in range(0, len(text), size)]
    return {_PARTS: str(len(parts)), **{f"{_PART}{number}": part for number, part in enumerate(parts)}}


def joined_definition(parameters: Mapping[str, str]) -> str | None:
    """The definition in parameters; None if a part is missing."""
    if VIEW_DEFINITION in parameters:
        return parameters[VIEW_DEFINITION]
    number = parameters.get(_PARTS, "")
    if not (number.isascii() and number.isdigit() and int(number[:9]) <= _MOST_PARTS):
        return None
    parts = [parameters.get(f"{_PART}{index}") for index in range(int(number))]
    return "".join(part for part in parts if part is not None) if None not in parts else None


def is_view_of_ours(table_type: str, parameters: Mapping[str, str], text: str) -> bool:
    """Whether an object is a view of ours.

    Args:
        text: its ``ViewOriginalText``.
    """
    if table_type.upper() != VIRTUAL_VIEW or not (VIEW_DEFINITION in parameters or _PARTS in parameters):
        return False
    definition = joined_definition(parameters)
    if definition is None or not view_fields(definition):
        return True  # Its readers get an error, and a new definition repairs it.
    return text in (view_query(definition), ascii_text(view_query(definition)), UNSHOWN_QUERY)


def other_parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters of a view that are not its definition."""
    ours = (VIEW_DEFINITION, CREATION)
    return {
        name: value for name, value in parameters.items() if name not in ours and not name.startswith(f"{ours[0]}.")
    }


def shown_query(query: str, limit: int) -> str:
    """The text that consoles show of a query, where the catalog keeps at most `limit` bytes."""
    return query if len(query.encode()) <= limit else UNSHOWN_QUERY


def ascii_text(text: str) -> str:
    """A text with characters beyond ASCII as JSON and Spark's literals write them: some metastores lose others."""
    return _BEYOND_ASCII.sub(lambda match: json.dumps(match[0])[1:-1], text)
