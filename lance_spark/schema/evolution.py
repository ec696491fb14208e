"""Schema evolution. Fields keep their ids, so that existing data files remain valid.

Paths are as in `projection`: names joined by dots. The items of a list are the field ``item`` or ``element`` below it,
the parts of a map ``key`` and ``value``, or ``entries.key`` and ``entries.value``.

A type is wider than another one if it represents all of its values. A value out of range after all, such as a date
beyond the years of a timestamp in nanoseconds, is an error when values are converted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidInputError
from lance_spark.schema.arrow import from_arrow_field, to_arrow_field, to_arrow_type
from lance_spark.schema.blob import as_blob_field
from lance_spark.schema.columns import is_leaf
from lance_spark.schema.field import RESERVED_NAMES, Field, FieldId, LanceSchema
from lance_spark.schema.projection import FieldFinder, parse_path, prune

FieldChange = Callable[[Field], Field]

_UNITS = {"s": 0, "ms": 1, "us": 2, "ns": 3}
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_EXACT_BITS = {16: 11, 32: 24, 64: 53}
"""Bit width of a floating-point type -> bits of integers that it represents exactly."""


@dataclass(frozen=True, slots=True)
class Addition:
    """A schema with added fields.

    Attributes:
        schema: all fields; new ones are after the existing ones at every level.
        added: only the new fields, below their parents.
    """

    schema: LanceSchema
    added: LanceSchema


def with_added(schema: LanceSchema, new: pa.Schema, first_id: int) -> Addition:
    """The schema with the fields of `new`, numbered from `first_id`.

    An existing struct gets its missing children, in lists and maps too.

    Raises:
        InvalidInputError: a field that exists, no new field at all, or a type that Lance cannot store.
    """
    fields = list(schema.fields)
    start = first_id
    for column in new:
        place = next((place for place, field in enumerate(fields) if field.name == column.name), None)
        if place is None:
            new_field = as_blob_field(from_arrow_field(column, first_id=first_id))
            fields.append(new_field)
        else:
            fields[place] = new_field = _grown(fields[place], column, first_id, column.name)
        first_id = max([first_id, *(node.id + 1 for node in new_field.walk())])
    if first_id == start:
        raise InvalidInputError("there is no column to add")
    whole = LanceSchema(tuple(fields), schema.metadata)
    ids = {node.id for node in whole.walk() if node.id >= start}
    return Addition(whole, LanceSchema(prune(whole.fields, ids), {}))


def _grown(field: Field, wanted: pa.Field, first_id: int, path: str) -> Field:
    """`field` with the missing children from `wanted`."""
    if pt.is_map(wanted.type) and field.logical_type == "map":
        return _grown_map(field, wanted.type, first_id, path)
    below = _children(wanted.type)
    if not below or is_leaf(field) or _shape(field) != _shape_of(wanted.type):
        raise InvalidInputError(f"the table has a column {path!r}; drop or rename it, or choose another name")
    children = list(field.children)
    for child in below:
        name = child.name if field.logical_type == "struct" else children[0].name
        place = next((place for place, child_field in enumerate(children) if child_field.name == name), None)
        if place is None:
            new_field = as_blob_field(from_arrow_field(child, first_id=first_id, nested=True))
            children.append(new_field)
        else:
            children[place] = new_field = _grown(children[place], child, first_id, f"{path}.{name}")
        first_id = max([first_id, *(node.id + 1 for node in new_field.walk())])
    return field.with_children(tuple(children))


def _grown_map(field: Field, wanted: pa.MapType, first_id: int, path: str) -> Field:
    """The map `field` with the missing children of those of its parts that are of another type in `wanted`."""
    entries = field.children[0]
    parts = []
    for part, part_field in zip(entries.children, (wanted.key_field, wanted.item_field), strict=True):
        grown = (
            part
            if part_field.type == to_arrow_type(part)
            else _grown(part, part_field, first_id, f"{path}.{part.name}")
        )
        first_id = max([first_id, *(node.id + 1 for node in grown.walk())])
        parts.append(grown)
    return field.with_children((entries.with_children(tuple(parts)),))


def _children(dtype: pa.DataType) -> list[pa.Field]:
    if pt.is_struct(dtype):
        return list(dtype)
    return [dtype.value_field] if pt.is_list(dtype) or pt.is_large_list(dtype) else []


def _shape(field: Field) -> str:
    return field.logical_type.partition(".")[0]


def _shape_of(dtype: pa.DataType) -> str:
    return "struct" if pt.is_struct(dtype) else "large_list" if pt.is_large_list(dtype) else "list"


def as_nested(schema: LanceSchema, path: str, field: pa.Field) -> pa.Field:
    """`field` wrapped in its parents, as `with_added` takes it for the path `path`.

    >>> from lance_spark.schema.arrow import from_arrow_schema
    >>> schema = from_arrow_schema(pa.schema([("s", pa.struct([("x", pa.int32())]))]))
    >>> str(as_nested(schema, "s.y", pa.field("y", pa.int8())))
    'pyarrow.Field<s: struct<y: int8>>'

    Raises:
        NotFoundError: a parent does not exist.
        InvalidInputError: a parent is not a struct.
    """
    names = parse_path(path)
    if len(names) == 1:
        return field.with_name(names[0])
    nested = field.with_name(names[-1])
    fields = FieldFinder(schema).find(names[:-1], in_sql=True)
    for place, around in reversed(list(enumerate(fields))):
        shown = to_arrow_field(around)
        if place and fields[place - 1].logical_type == "map":
            dtype = _map_with(around.children, nested)
        elif pt.is_map(shown.type) and place + 1 < len(fields):
            dtype = nested.type
        elif pt.is_struct(shown.type):
            dtype = pa.struct([nested])
        elif pt.is_list(shown.type):
            dtype = pa.list_(nested)
        elif pt.is_large_list(shown.type):
            dtype = pa.large_list(nested)
        else:
            raise InvalidInputError(f"nothing can be added to {around.name!r}, which is a {shown.type}")
        nested = pa.field(around.name, dtype, around.nullable)
    return nested


def _map_with(parts: Sequence[Field], changed: pa.Field) -> pa.MapType:
    """The type of a map of these parts, of which `changed` is one."""
    key, value = (changed if part.name == changed.name else to_arrow_field(part) for part in parts)
    return pa.map_(key.with_nullable(False), value)


def without(schema: LanceSchema, paths: Iterable[str]) -> LanceSchema:
    """The schema without the fields at `paths`.

    Raises:
        NotFoundError: there is no such field.
        InvalidInputError: the table or a struct would be empty, or the field cannot be removed separately.
    """
    deleted: set[FieldId] = set()
    finder = FieldFinder(schema)
    for path in paths:
        along = finder.find(_names(finder, path), in_sql=True)
        _check_part(along, path, "dropped")
        deleted.add(along[-1].id)
    if not deleted:
        raise InvalidInputError("there is no column to drop")

    def kept(field: Field) -> Field | None:
        if field.id in deleted:
            return None
        children = tuple(child for node in field.children if (child := kept(node)) is not None)
        if field.children and not children:
            raise InvalidInputError(f"nothing would be left of {field.name!r}; drop it as a whole")
        return field if children == field.children else field.with_children(children)

    fields = tuple(field for top in schema.fields if (field := kept(top)) is not None)
    if not fields:
        raise InvalidInputError("a table needs a column; this would drop all of them")
    return LanceSchema(fields, schema.metadata)


def renamed(schema: LanceSchema, names: Mapping[str, str]) -> LanceSchema:
    """The schema with renamed fields; `names` maps paths to the last part of the new path. Names may be swapped.

    Raises:
        NotFoundError: there is no such field.
        InvalidInputError: the new name is taken or invalid.
    """
    new_names: dict[FieldId, str] = {}
    finder = FieldFinder(schema)
    for path, name in names.items():
        along = finder.find(_names(finder, path), in_sql=True)
        _check_part(along, path, "renamed")
        _check_name(name, nested=len(along) > 1)
        if new_names.setdefault(along[-1].id, name) != name:
            raise InvalidInputError(f"{path!r} is to get two names")
    if not new_names:
        raise InvalidInputError("there is no column to rename")
    changed = mapped(schema, lambda field: dataclasses.replace(field, name=new_names.get(field.id, field.name)))
    _check_distinct(changed.fields, "the table")
    return changed


def replaced(schema: LanceSchema, path: str, change: FieldChange) -> LanceSchema:
    """The schema with `change` applied to the field at `path`.

    Raises:
        NotFoundError: there is no such field.
    """
    old = field_at(schema, path)
    return mapped(schema, lambda field: change(field) if field.id == old.id else field)


def reordered(schema: LanceSchema, order: Sequence[str]) -> LanceSchema:
    """The schema with its top-level fields in another order; those that `order` leaves out come last.

    Raises:
        NotFoundError: there is no such column.
        InvalidInputError: a duplicate column.
    """
    set_of_order = set(order)
    if len(set_of_order) != len(order):
        raise InvalidInputError("a column is named twice")
    finder = FieldFinder(schema)
    first = [finder.find((name,))[0] for name in order]
    rest = [field for field in schema.fields if field.name not in set_of_order]
    return LanceSchema((*first, *rest), schema.metadata)


def field_at(schema: LanceSchema, path: str) -> Field:
    """The field at `path`.

    Raises:
        NotFoundError: there is none.
    """
    return fields_along(schema, path)[-1]


def fields_along(schema: LanceSchema, path: str) -> tuple[Field, ...]:
    """The fields along `path`, the top-level one first.

    Raises:
        NotFoundError: there is no such field.
    """
    finder = FieldFinder(schema)
    return finder.find(_names(finder, path), in_sql=True)


def _names(finder: FieldFinder, path: str) -> Sequence[str]:
    if not isinstance(path, str):
        raise InvalidInputError(f"{path!r} is no column; columns are named by text")
    return finder.names(path)


def mapped(schema: LanceSchema, change: FieldChange) -> LanceSchema:
    """The schema with `change` applied to each field, parents before children."""

    def visit(field: Field) -> Field:
        changed = change(field)
        children = tuple(visit(child) for child in changed.children)
        return changed if children == changed.children else changed.with_children(children)

    return LanceSchema(tuple(visit(field) for field in schema.fields), schema.metadata)


def _check_part(along: Sequence[Field], path: str, verb: str) -> None:
    """Checks that the last of these fields is a column or a member of a struct with its own column."""
    around = along[-2] if len(along) > 1 else None
    if around is None:
        return
    is_entries = len(along) > 2 and along[-3].logical_type == "map"
    if around.logical_type != "struct" or is_entries or any(is_leaf(field) for field in along[:-1]):
        raise InvalidInputError(f"{path!r} is no column or field of a struct, and cannot be {verb} on its own")


def _check_name(name: str, *, nested: bool) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"{name!r} is no name for a column")
    if "." in name and not nested:
        raise InvalidInputError(f"{name!r} is no name for a column, dots separate nested fields")
    if name in RESERVED_NAMES and not nested:
        raise InvalidInputError(f"{name!r} is a column that every table has; choose another name")


def _check_distinct(fields: Sequence[Field], where: str) -> None:
    names = [field.name for field in fields]
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InvalidInputError(f"{where} would have more than one column named {', '.join(map(repr, twice))}")
    for field in fields:
        if field.logical_type == "struct":
            _check_distinct(field.children, repr(field.name))
        else:
            for child in field.children:
                _check_distinct((child,), repr(field.name))


def check_widening(old: pa.DataType, new: pa.DataType, path: str) -> None:
    """Checks that `new` can represent the values of `old`.

    Raises:
        InvalidInputError: it cannot, or not all of them.
    """
    if not is_wider(old, new):
        raise InvalidInputError(
            f"column {path!r} of type {old} cannot become {new}, which does not hold all of its values; "
            "add a column with CAST, drop this one, and rename the new one"
        )


def is_wider(old: pa.DataType, new: pa.DataType) -> bool:
    """True if `new` can represent the values of `old`.

    >>> is_wider(pa.int32(), pa.int64()), is_wider(pa.int64(), pa.int32()), is_wider(pa.uint32(), pa.int64())
    (True, False, True)
    """
    return old == new or any(rule(old, new) for rule in _RULES)


def _integers(old: pa.DataType, new: pa.DataType) -> bool:
    if not (pt.is_integer(old) and pt.is_integer(new)) or new.bit_width <= old.bit_width:
        return False
    return bool(pt.is_signed_integer(new) or pt.is_unsigned_integer(old))


def _integer_to_float(old: pa.DataType, new: pa.DataType) -> bool:
    if not (pt.is_integer(old) and pt.is_floating(new)):
        return False
    return bool(old.bit_width - pt.is_signed_integer(old) <= _EXACT_BITS[new.bit_width])


def _floats(old: pa.DataType, new: pa.DataType) -> bool:
    return bool(pt.is_floating(old) and pt.is_floating(new) and new.bit_width > old.bit_width)


def _to_decimal(old: pa.DataType, new: pa.DataType) -> bool:
    if not pt.is_decimal(new):
        return False
    if pt.is_integer(old):
        return bool(new.precision - new.scale >= _DIGITS[old.bit_width])
    if not pt.is_decimal(old):
        return False
    return bool(new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale)


def _times(old: pa.DataType, new: pa.DataType) -> bool:
    if pt.is_timestamp(old) and pt.is_timestamp(new):
        return old.tz == new.tz and _UNITS[new.unit] >= _UNITS[old.unit]
    same = (pt.is_time(old) and pt.is_time(new)) or (pt.is_duration(old) and pt.is_duration(new))
    return bool(same and _UNITS[new.unit] >= _UNITS[old.unit])


def _dates(old: pa.DataType, new: pa.DataType) -> bool:
    return bool(pt.is_date32(old) and (pt.is_date64(new) or (pt.is_timestamp(new) and new.tz is None)))


def _large(old: pa.DataType, new: pa.DataType) -> bool:
    return bool(
        (pt.is_string(old) and pt.is_large_string(new))
        or (pt.is_binary(old) and pt.is_large_binary(new))
        or (pt.is_fixed_size_binary(old) and (pt.is_binary(new) or pt.is_large_binary(new)))
    )


def _vectors(old: pa.DataType, new: pa.DataType) -> bool:
    if not (pt.is_fixed_size_list(old) and pt.is_fixed_size_list(new)) or old.list_size != new.list_size:
        return False
    return not pt.is_nested(old.value_type) and is_wider(old.value_type, new.value_type)


_RULES: tuple[Callable[[pa.DataType, pa.DataType], bool], ...] = (
    _integers,
    _integer_to_float,
    _floats,
    _to_decimal,
    _times,
    _dates,
    _large,
    _vectors,
)
