"""Matches the columns of one version of a table with those of the previous version.

A column is identified by its field id, regardless of its name. A column with a changed type has a new id; it is matched
by its old name, unless that is now the name of another older column. After an overwrite ids mean other columns, so only
names count. Versions further apart are matched step by step: a dropped column is not the same as a column that was
later added with its name or id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from lance_spark.schema.columns import is_blob
from lance_spark.schema.field import Field, FieldId, LanceSchema

# No table assigns such ids, so no data file has them: such a field reads as null.
_FIRST_UNHELD = 1 << 30


def found_in(wanted: LanceSchema, here: LanceSchema, there: LanceSchema, *, by_id: bool) -> LanceSchema:
    """`wanted`, as stored in data files of the version with the schema `there`.

    Names and nesting are those of `wanted`, ids and types those of `there`. A field that `there` lacks gets an id that
    no file has.

    Args:
        wanted: columns with the ids of `here`; unknown ids stand for missing columns.
        here: the schema of the version that follows the one with the schema `there`.
        by_id: whether field ids mean the same in both.
    """
    return LanceSchema(_Match(here, there, by_id).fields(wanted.fields, there.fields), wanted.metadata)


def nullable(field: Field) -> Field:
    """`field`, nullable at every depth; the entries of a map are unchanged."""
    if field.logical_type.startswith("map") or is_blob(field):
        return replace(field, nullable=True)
    return replace(field, nullable=True, children=tuple(nullable(child) for child in field.children))


class _Match:
    def __init__(self, here: LanceSchema, there: LanceSchema, by_id: bool) -> None:
        self._names: Mapping[FieldId, str] = {node.id: node.name for node in here.walk()}
        self._known: Mapping[FieldId, Field] = {node.id: node for node in there.walk() if node.id >= 0} if by_id else {}
        self._taken: Collection[FieldId] = self._names.keys() if by_id else ()
        self._unheld: Iterator[int] = count(_FIRST_UNHELD)

    def fields(self, wanted: Sequence[Field], there: Sequence[Field]) -> tuple[Field, ...]:
        return tuple(self._field(field, there) for field in wanted)

    def _field(self, wanted: Field, siblings: Sequence[Field]) -> Field:
        found = self._known.get(wanted.id) if wanted.id in self._names else None
        if found is None:
            name = self._names.get(wanted.id)
            found = next((other for other in siblings if other.name == name and other.id not in self._taken), None)
        if found is None:
            return self._missing(wanted)
        if is_blob(found) or is_blob(wanted) or bool(found.children) != bool(wanted.children):
            return replace(found, name=wanted.name)
        children = self.fields(wanted.children, found.children)
        return replace(found, name=wanted.name, nullable=wanted.nullable, children=children)

    def _missing(self, wanted: Field) -> Field:
        if is_blob(wanted):
            return replace(wanted, id=FieldId(next(self._unheld)))
        children = tuple(self._missing(child) for child in wanted.children)
        return replace(wanted, id=FieldId(next(self._unheld)), children=children)
