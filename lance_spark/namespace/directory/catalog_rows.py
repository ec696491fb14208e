"""The rows of one version of `__manifest` in memory, from which the rows of the next one are computed.

A row is a namespace, a table, or an object of an unknown type; its properties are a JSON object of strings in the
column `metadata`, null if there are none. Unknown columns and rows are preserved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_spark.namespace.locations import overlaps
from lance_spark.namespace.object_id import Identifier, folded, identifier_of, object_id
from lance_spark.namespace.view_texts import VIEW_DEFINITION

NAMESPACE = "namespace"
TABLE = "table"
VIEW = "view"

_NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})

OBJECT_ID, OBJECT_TYPE, LOCATION, METADATA = "object_id", "object_type", "location", "metadata"
ENTRY_COLUMNS = (OBJECT_ID, OBJECT_TYPE, LOCATION, METADATA)


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

    @property
    def kind(self) -> str:
        """`NAMESPACE`, `VIEW` (a row of type `NAMESPACE` with a definition), `TABLE`, or an unknown type."""
        if self.object_type != NAMESPACE or VIEW_DEFINITION not in (self.metadata or ""):
            return self.object_type
        try:
            return VIEW if VIEW_DEFINITION in self.properties else NAMESPACE
        except CorruptFileError:
            return VIEW  # Its readers get the error; nothing else takes its place.


def properties_from_json(text: str | None, owner: str) -> Mapping[str, str]:
    """The properties of `owner`.

    Raises:
        CorruptFileError: not a JSON object of strings.
    """
    if not text:
        return _NO_PROPERTIES
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"the metadata of {owner!r} in __manifest is no JSON: {error}") from error
    if not isinstance(document, dict) or not all(_is_text(key) and _is_text(value) for key, value in document.items()):
        raise CorruptFileError(f"the metadata of {owner!r} in __manifest is no JSON object of strings")
    return MappingProxyType(document)


def properties_to_json(properties: Mapping[str, str]) -> str | None:
    """The text of the column `metadata`, None for no properties."""
    return json.dumps(dict(properties), ensure_ascii=False, separators=(",", ":")) if properties else None


def checked_properties(properties: Mapping[str, str] | None) -> Mapping[str, str]:
    """Returns `properties` if they are strings.

    Raises:
        InvalidInputError: a key or a value is not a string, or the key is that of a view's definition.
    """
    result = dict(properties or {})
    if VIEW_DEFINITION in result:
        raise InvalidInputError(f"property {VIEW_DEFINITION!r} is the catalog's own; CREATE VIEW makes a view")
    for key, value in result.items():
        if not _is_text(key) or not _is_text(value):
            raise InvalidInputError(f"property {key!r}: {value!r}; names and values are Unicode text")
    return MappingProxyType(result)


def _is_text(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class CatalogRows:
    """The rows as an Arrow table; every method returns new rows."""

    table: pa.Table

    def find(self, object_id: str) -> CatalogEntry | None:
        """The object with this id, None if there is none.

        Raises:
            CorruptFileError: there are two, or the row violates the format.
        """
        return only(self._entries(pc.equal(self.table[OBJECT_ID], self._text(OBJECT_ID, object_id))), object_id)

    def alike(self, object_id: str) -> list[CatalogEntry]:
        """The objects whose ids differ from this one only in case."""
        ids = self.table[OBJECT_ID]
        chosen = pc.equal(pc.utf8_lower(ids), self._text(OBJECT_ID, folded(object_id)))
        return self._entries(pc.and_(chosen, pc.not_equal(ids, self._text(OBJECT_ID, object_id))))

    def has_namespace(self, object_id: str) -> bool:
        """Whether there is a namespace with this id; a view is none."""
        entry = self.find(object_id)
        return entry is not None and entry.kind == NAMESPACE

    def locations(self) -> set[str]:
        """The locations of all objects that have one, unchecked."""
        return {location for location in self.table[LOCATION].to_pylist() if location}

    def tables_at(self, location: str) -> list[CatalogEntry]:
        """The tables whose directories equal, contain or are inside `location`."""
        columns = self.table.select([OBJECT_TYPE, LOCATION]).to_pydict()
        pairs = zip(columns[OBJECT_TYPE], columns[LOCATION], strict=True)
        chosen = [kind == TABLE and bool(place) and overlaps(place, location) for kind, place in pairs]
        return self._entries(pa.array(chosen, pa.bool_())) if any(chosen) else []

    def below(self, prefix: str) -> list[CatalogEntry]:
        """The objects whose ids start with `prefix`."""
        return self._entries(pc.starts_with(self.table[OBJECT_ID], prefix))

    def added(self, entries: Sequence[CatalogEntry]) -> CatalogRows:
        """Appends rows; columns that entries lack are null.

        Raises:
            UnsupportedFeatureError: an unknown column is not nullable.
        """
        for column in self.table.schema:
            if column.name not in ENTRY_COLUMNS and not column.nullable:
                raise UnsupportedFeatureError(
                    f"column {column.name!r} of __manifest must not be null, and this release does not know its values",
                    feature="catalog column",
                )
        new = pa.Table.from_pylist([entry.to_row() for entry in entries], schema=self.table.schema)
        return CatalogRows(pa.concat_tables([self.table, new]))

    def removed(self, object_ids: Sequence[str]) -> CatalogRows:
        """Without the rows with these ids."""
        deleted = pc.is_in(self.table[OBJECT_ID], value_set=pa.array(object_ids, self._type(OBJECT_ID)))
        return CatalogRows(self.table.filter(pc.invert(deleted)))

    def renamed(self, object_id: str, new_id: str) -> CatalogRows:
        """Changes the id of a row."""
        return self._with_value(object_id, OBJECT_ID, new_id)

    def with_location(self, object_id: str, location: str) -> CatalogRows:
        """Changes the location of the row with this id."""
        return self._with_value(object_id, LOCATION, location)

    def with_properties(self, object_id: str, properties: Mapping[str, str]) -> CatalogRows:
        """Changes the properties of the row with this id."""
        return self.with_metadata(object_id, properties_to_json(properties))

    def with_metadata(self, object_id: str, text: str | None) -> CatalogRows:
        """Changes the text of the column `metadata` of the row with this id."""
        return self._with_value(object_id, METADATA, text)

    def _with_value(self, object_id: str, column: str, value: str | None) -> CatalogRows:
        chosen = pc.equal(self.table[OBJECT_ID], self._text(OBJECT_ID, object_id))
        field = self.table.schema.field(column)
        changed = pc.if_else(chosen, self._text(column, value), self.table[column])
        return CatalogRows(self.table.set_column(self.table.schema.get_field_index(column), field, changed))

    def _entries(self, chosen: pa.Array) -> list[CatalogEntry]:
        rows = self.table.select(list(ENTRY_COLUMNS)).filter(chosen).to_pylist()
        return [CatalogEntry.from_row(row) for row in rows]

    def _type(self, column: str) -> pa.DataType:
        return self.table.schema.field(column).type

    def _text(self, column: str, value: str | None) -> pa.Scalar:
        return pa.scalar(value, self._type(column))


def ids_alike(rows: pa.Table, identifier: Identifier) -> dict[Identifier, str]:
    """The types of the objects whose names differ from `identifier`, or from one of its parents, at most in case.

    Args:
        rows: ids and types of objects.
    """
    prefixes = [folded(object_id(identifier[:depth])) for depth in range(1, len(identifier) + 1)]
    alike = rows.filter(pc.is_in(pc.utf8_lower(rows[OBJECT_ID]), value_set=pa.array(prefixes, rows[OBJECT_ID].type)))
    return {identifier_of(row[OBJECT_ID]): row[OBJECT_TYPE] for row in alike.to_pylist()}


def only(entries: Sequence[CatalogEntry], object_id: str) -> CatalogEntry | None:
    """The entry with this id in `entries`, None if there is none.

    Raises:
        CorruptFileError: there are two.
    """
    matches = [entry for entry in entries if entry.object_id == object_id]
    if len(matches) > 1:
        raise CorruptFileError(f"{object_id!r} stands twice in __manifest")
    return matches[0] if matches else None
