"""A Lance schema: a tree of fields with stable ids (`lance.file.Field`).

The wire format lists fields depth-first with `id` and `parent_id`; here a field has its children. `Field.type` of
the wire format is always 0 in real files, so the kind of a field follows from `logical_type` alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NewType

from lance_spark.errors import NotFoundError

FieldId = NewType("FieldId", int)

TOMBSTONE_FIELD_ID = FieldId(-2)
"""In `DataFile.fields`: a column whose values are replaced by another file."""

ROW_ID_FIELD = FieldId(-3)
CREATED_AT_FIELD = FieldId(-4)
LAST_UPDATED_AT_FIELD = FieldId(-5)
"""In data files: row ids and row versions that are too many for the manifest. Not columns of the table."""

LINEAGE_FIELD_IDS = frozenset({ROW_ID_FIELD, CREATED_AT_FIELD, LAST_UPDATED_AT_FIELD})

RESERVED_NAMES = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"}
)
"""Top-level columns that readers of the format generate: not all can read a table that has such a column."""

MAX_DEPTH = 100
"""Maximum nesting depth of fields; top-level fields have depth 0."""

_YES = frozenset({b"true", b"1", b"on", b"yes", b"y"})


def is_set(metadata: Mapping[str, bytes], key: str) -> bool:
    """True if metadata has `key` with a true value: true, 1, on, yes, y, case-insensitive."""
    return metadata.get(key, b"").lower() in _YES


@dataclass(frozen=True, slots=True)
class DictionaryLocation:
    """Position of the values of a legacy dictionary column in the file of the schema."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Field:
    """One node of a schema; immutable.

    `metadata` is Arrow field metadata (values are bytes, as on the wire). `encoding` is the wire's enum value
    and matters for legacy files only. Positions of fields in the primary and the clustering key count from 1; 0 means
    no explicit position. `arrow_type` is kept by `schema.arrow.to_arrow_type`, which reads of few rows ask often.
    """

    name: str
    id: FieldId
    logical_type: str
    nullable: bool = True
    children: tuple[Field, ...] = ()
    metadata: Mapping[str, bytes] = field(default_factory=dict)
    encoding: int = 0
    dictionary: DictionaryLocation | None = None
    extension_name: str = ""
    unenforced_primary_key: bool = False
    unenforced_primary_key_position: int = 0
    unenforced_clustering_key_position: int = 0
    arrow_type: Any = field(default=None, init=False, repr=False, compare=False)

    def walk(self) -> Iterator[Field]:
        """This field and all its descendants, depth-first (the order of the wire format)."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def array_key(self) -> tuple[Hashable, ...]:
        """Equal for fields whose arrays have one type and are read from the same columns of a file."""
        return tuple(
            [(node.id, node.name, node.logical_type, node.nullable, *node.metadata.items()) for node in self.walk()]
        )

    def with_children(self, children: tuple[Field, ...]) -> Field:
        """This field with other children."""
        return replace(self, children=children)


@dataclass(frozen=True, slots=True)
class LanceSchema:
    """The fields of a table or file and the schema's own metadata. `arrow_schema` is kept by
    `schema.arrow.to_arrow_schema`.
    """

    fields: tuple[Field, ...]
    metadata: Mapping[str, bytes] = field(default_factory=dict)
    arrow_schema: Any = field(default=None, init=False, repr=False, compare=False)

    def walk(self) -> Iterator[Field]:
        """All fields depth-first."""
        for top in self.fields:
            yield from top.walk()

    @property
    def max_field_id(self) -> int:
        """The largest field id, -1 for no fields."""
        return max((node.id for node in self.walk()), default=-1)

    def field_by_id(self, field_id: int) -> Field:
        """The field with this id, at any depth.

        Raises:
            NotFoundError: there is none.
        """
        for node in self.walk():
            if node.id == field_id:
                return node
        raise NotFoundError(f"the schema has no field with id {field_id}")

    def names(self) -> tuple[str, ...]:
        """Names of the top-level fields."""
        return tuple([top.name for top in self.fields])
