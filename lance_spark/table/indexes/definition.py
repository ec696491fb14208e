"""Definition of an index: a column of a version, the kind of index, and its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.index.builders.base import IndexBuilder
from lance_spark.index.builders.kinds import builder_named
from lance_spark.index.members import check_path, member_type, names_without_items
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.schema.projection import FieldFinder
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.manifests.manifest import Manifest


@dataclass(frozen=True)
class IndexDefinition:
    """An index that is to be built.

    Attributes:
        name: of the index.
        column: names of the fields from the top-level one down to the indexed one.
        field: the indexed field.
        builder: of its kind, for the field's type, with parameters.
    """

    name: str
    column: tuple[str, ...]
    field: Field
    builder: IndexBuilder

    @property
    def type_url(self) -> str:
        """The type of its details in the table's metadata."""
        return self.builder.index_type.type_url


class KnownIndex(NamedTuple):
    """An index that there is already: its name, the type of its details, and the ids of its fields."""

    name: str
    type_url: str
    field_ids: tuple[int, ...]


def known_indexes(manifest: Manifest) -> list[KnownIndex]:
    """The indexes of a version."""
    return [
        KnownIndex(index.name, index.message.index_details.type_url, tuple(index.message.fields))
        for index in parse_indices(manifest.index_section)
        if not index.is_system
    ]


def define(
    manifest: Manifest, column: str, kind: str, name: str | None, parameters: Mapping[str, object]
) -> IndexDefinition:
    """The index that a user asks for on a version. Arguments and errors as `define_beside`."""
    return define_beside(known_indexes(manifest), manifest.schema, column, kind, name, parameters)


def define_beside(
    existing: Sequence[KnownIndex],
    schema: LanceSchema,
    column: str,
    kind: str,
    name: str | None,
    parameters: Mapping[str, object],
) -> IndexDefinition:
    """The index that a user asks for.

    Args:
        existing: the other indexes of the table.
        column: a name or a dotted path into structs; of an index of texts also into structs in lists.
        kind: such as BTREE, in any case.
        name: None for the path of the column and ``_idx`` (``_list_element_idx`` for items of lists); where another
            kind of index has this name, with a number.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: no such kind, a type that the kind does not index, a wrong parameter, or a name that is
            reserved or that an index of another column has.
    """
    builder_type = builder_named(kind)
    checked = builder_type.checked(parameters)
    along = find_column(schema, column, in_lists=builder_type.reaches_into_lists)
    names, field = tuple(field.name for field in along), along[-1]
    dtype = member_type(along)
    is_json = field.logical_type == "json" or not builder_type.binary_is_json
    if not builder_type.supports(dtype) or (pa.types.is_large_binary(dtype) and not is_json):
        raise InvalidInputError(
            f"column {column!r} is of type {dtype}, which an index of kind {builder_type.index_type.type_name} does "
            "not support"
        )
    if name is None:
        path = ".".join(names_without_items(along))
        name = _free_name(path + builder_type.name_suffix(checked), builder_type, field, existing)
    _check_name(name, field, existing)
    return IndexDefinition(name, names, field, made_over(along, builder_type, checked))


def made_over(
    path: Sequence[Field], builder_type: type[IndexBuilder], parameters: Mapping[str, object]
) -> IndexBuilder:
    """The builder of an index of the column at the end of `path`.

    Raises:
        InvalidInputError: the parameters do not fit the column.
    """
    return builder_type.made(member_type(path, keeps_lists=builder_type.keeps_lists(parameters)), parameters)


def find_column(schema: LanceSchema, column: str, *, in_lists: bool = False) -> tuple[Field, ...]:
    """The fields along the path of a column.

    Args:
        in_lists: whether it can be a member of structs in lists, whose items need not be named.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: it is inside of another type, or the path cannot be parsed.
    """
    finder = FieldFinder(schema)
    names = finder.names(column)
    along = finder.find_in_lists(names) if in_lists else finder.find(names)
    check_path(along, column, in_lists=in_lists)
    return along


def field_path(schema: LanceSchema, field_id: int) -> tuple[Field, ...]:
    """The fields from the top-level one down to the one with this id; empty if there is none.

    >>> from lance_spark.schema.arrow import from_arrow_schema
    >>> schema = from_arrow_schema(pa.schema({"s": pa.struct({"x": pa.int8()})}))
    >>> [field.name for field in field_path(schema, 1)]
    ['s', 'x']
    """

    def below(fields: tuple[Field, ...]) -> tuple[Field, ...]:
        for field in fields:
            rest = below(field.children)
            if field.id == field_id or rest:
                return (field, *rest)
        return ()

    return below(schema.fields)


def _free_name(name: str, builder_type: type[IndexBuilder], field: Field, existing: Sequence[KnownIndex]) -> str:
    """`name`, or with a number if an index of another kind or column has it."""
    taken = {
        index.name
        for index in existing
        if index.type_url.lower() != builder_type.index_type.type_url.lower() or index.field_ids != (field.id,)
    }
    number, candidate = 1, name
    while candidate in taken:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def _check_name(name: str, field: Field, existing: Sequence[KnownIndex]) -> None:
    if not name or name.startswith("__lance"):
        raise InvalidInputError(f"an index cannot be called {name!r}; choose a name that does not begin with __lance")
    for index in existing:
        if index.name == name and index.field_ids != (field.id,):
            raise InvalidInputError(f"index {name!r} is over another column; choose another name, or drop it first")
