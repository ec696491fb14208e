"""One row of `__manifest`: a namespace, a table, or an object of an unknown type.

Properties are a JSON object of strings in the column `metadata`, null if there are none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from lance_spark.errors import CorruptFileError, InvalidInputError

NAMESPACE = "namespace"
TABLE = "table"

_NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """The row of one object in `__manifest`, unchecked.

    Attributes:
        object_id: names joined by ``$``.
        object_type: `NAMESPACE`, `TABLE`, or an unknown type.
        location: of a table.
        metadata: of tables and namespaces, their properties as JSON text.
    """

    object_id: str
    object_type: str
    location: str | None = None
    metadata: str | None = None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> CatalogEntry:
        """From the values of a row.

        Raises:
            CorruptFileError: id or type is null.
        """
        if row["object_id"] is None or row["object_type"] is None:
            raise CorruptFileError("a row of __manifest has no object_id or no object_type")
        return cls(row["object_id"], row["object_type"], row["location"], row["metadata"])

    def to_row(self) -> dict[str, str | None]:
        """The values of the row; other columns are null."""
        return {
            "object_id": self.object_id,
            "object_type": self.object_type,
            "location": self.location,
            "metadata": self.metadata,
        }

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties of a table or a namespace.

        Raises:
            CorruptFileError: they are not a JSON object of strings.
        """
        return properties_from_json(self.metadata, self.object_id)


def properties_from_json(text: str | None, owner: str) -> Mapping[str, str]:
    """The properties of `owner`.

    Raises:
        CorruptFileError: not a JSON object of strings.
    """
    if not text:
        return _NO_PROPERTIES
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"the metadata of {owner!r} in __manifest is no JSON: {error}") from error
    if not isinstance(found, dict) or not all(_is_text(key) and _is_text(value) for key, value in found.items()):
        raise CorruptFileError(f"the metadata of {owner!r} in __manifest is no JSON object of strings")
    return MappingProxyType(found)


def properties_to_json(properties: Mapping[str, str]) -> str | None:
    """The text of the column `metadata`, None for no properties."""
    return json.dumps(dict(properties), ensure_ascii=False, separators=(",", ":")) if properties else None


def checked_properties(properties: Mapping[str, str] | None) -> Mapping[str, str]:
    """Returns `properties` if they are strings.

    Raises:
        InvalidInputError: a key or a value is not a string.
    """
    given = dict(properties or {})
    for key, value in given.items():
        if not _is_text(key) or not _is_text(value):
            raise InvalidInputError(f"property {key!r}: {value!r}; names and values are Unicode text")
    return MappingProxyType(given)


def _is_text(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
