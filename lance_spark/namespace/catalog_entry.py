"""One row of `__manifest`: a namespace, a table, or something that this release does not know.

Properties are a JSON object of strings in the column `metadata`, null if there are none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from lance_spark.errors import CorruptFileError, InvalidInputError

NAMESPACE = "namespace"
TABLE = "table"

_NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """What `__manifest` says about one object.

    Attributes:
        object_id: names joined by ``$``.
        object_type: `NAMESPACE`, `TABLE`, or a type of others.
        location: of a table, as it is stored; not checked.
        properties: by name.
    """

    object_id: str
    object_type: str
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=lambda: _NO_PROPERTIES)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> CatalogEntry:
        """From the values of a row.

        Raises:
            CorruptFileError: id or type are null, or the properties are no JSON object of strings.
        """
        if row["object_id"] is None or row["object_type"] is None:
            raise CorruptFileError("a row of __manifest has no object_id or no object_type")
        properties = properties_from_json(row["metadata"], row["object_id"])
        return cls(row["object_id"], row["object_type"], row["location"], properties)

    def to_row(self) -> dict[str, str | None]:
        """The values of the row; other columns are null."""
        return {
            "object_id": self.object_id,
            "object_type": self.object_type,
            "location": self.location,
            "metadata": properties_to_json(self.properties),
        }


def properties_from_json(text: str | None, owner: str) -> Mapping[str, str]:
    """The properties of `owner`.

    Raises:
        CorruptFileError: no JSON object of strings.
    """
    if not text:
        return _NO_PROPERTIES
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"the metadata of {owner!r} in __manifest is no JSON: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise CorruptFileError(f"the metadata of {owner!r} in __manifest is no JSON object of strings")
    return MappingProxyType(found)


def properties_to_json(properties: Mapping[str, str]) -> str | None:
    """The text of the column `metadata`, None for no properties."""
    return json.dumps(dict(properties), ensure_ascii=False, separators=(",", ":")) if properties else None


def checked_properties(properties: Mapping[str, str] | None) -> Mapping[str, str]:
    """`properties`, if they are text.

    Raises:
        InvalidInputError: a key or a value is no text.
    """
    given = dict(properties or {})
    for key, value in given.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidInputError(f"property {key!r}: {value!r}; names and values are text")
        try:
            (key + value).encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidInputError(f"property {key!r} has a character that is not Unicode text") from None
    return MappingProxyType(given)
