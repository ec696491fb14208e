"""Columns and curve by which a table is clustered, and the record of the fragments that are.

>>> column_names("a, `b.c`.d")
['a', '`b.c`.d']
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidInputError
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.field import Field, FieldId, LanceSchema
from lance_spark.schema.projection import FieldFinder, dotted, parse_path

CLUSTERING_COLUMNS = "lance.clustering.columns"
"""The property with the columns by which a table is clustered if a statement names none."""

CURVES = ("hilbert", "zorder", "sort")
MAX_KEYS = 16

_DIRECTION = re.compile(r"(.*\S)\s+(asc|desc)", re.IGNORECASE | re.DOTALL)
_NAME = re.compile(r"\s*((?:`(?:[^`]|``)+`|[^,`])+)\s*(,|$)")


@dataclass(frozen=True, slots=True)
class ClusteringKey:
    """One column of the order.

    Attributes:
        path: the names from the top-level field down.
        field_id: of the last of them.
        descending: whether the largest values come first, and nulls last; only of the curve `sort`.
    """

    path: tuple[str, ...]
    field_id: FieldId
    descending: bool = False

    @property
    def name(self) -> str:
        """The dotted path."""
        return dotted(self.path)


@dataclass(frozen=True, slots=True)
class Layout:
    """Order of the rows of a table: its columns, and the curve through their values.

    Attributes:
        curve: one of `CURVES`.
    """

    keys: tuple[ClusteringKey, ...]
    curve: str = "hilbert"

    @classmethod
    def of(cls, schema: LanceSchema, columns: Sequence[str], curve: str = "hilbert") -> Layout:
        """The layout over columns of a schema.

        Args:
            columns: dotted paths; with the curve `sort` each may end with ` ASC` or ` DESC`.

        Raises:
            InvalidInputError: no column, too many, one twice, one whose values have no order, or an unknown curve.
            NotFoundError: no such column.
        """
        if curve not in CURVES:
            raise InvalidInputError(f"there is no curve {curve!r} to cluster by; use {', '.join(CURVES)}")
        if not columns or len(columns) > MAX_KEYS:
            raise InvalidInputError(f"a table is clustered by 1 to {MAX_KEYS} columns, not by {len(columns)}")
        finder = FieldFinder(schema)
        keys = tuple(_key(finder, column, curve) for column in columns)
        if len({key.field_id for key in keys}) < len(keys):
            raise InvalidInputError(f"a column is named twice to cluster by: {', '.join(columns)}")
        return cls(keys, curve)

    @property
    def columns(self) -> list[str]:
        """The dotted paths."""
        return [key.name for key in self.keys]

    @property
    def is_exact(self) -> bool:
        """Whether rows are sorted by the values themselves. A curve through one column is its order."""
        return self.curve == "sort" or len(self.keys) == 1

    def to_dict(self) -> dict[str, object]:
        """The layout as JSON has it."""
        keys = [[list(key.path), key.field_id, key.descending] for key in self.keys]
        return {"curve": self.curve, "keys": keys}

    @classmethod
    def from_dict(cls, content: Mapping[str, object]) -> Layout:
        """The layout that `to_dict` gave. Raises `KeyError`, `TypeError` or `ValueError` for something else."""
        keys = content["keys"]
        if not isinstance(keys, list):
            raise TypeError("keys are no list")
        made = (ClusteringKey(tuple(map(str, path)), FieldId(int(number)), bool(last)) for path, number, last in keys)
        return cls(tuple(made), str(content["curve"]))

    def has_order_of(self, other: Layout) -> bool:
        """Whether rows in this order are in that of `other`: the columns count by their ids, whatever their names."""
        mine, theirs = ([(key.field_id, key.descending) for key in item.keys] for item in (self, other))
        return mine == theirs and (self.curve == other.curve or self.is_exact is other.is_exact is True)


def column_names(text: str) -> list[str]:
    """The paths of a list with commas.

    Raises:
        InvalidInputError: one is empty or badly quoted.
    """
    names: list[str] = []
    position = 0
    while True:
        match = _NAME.match(text, position)
        if match is None or not match[1].strip():
            raise InvalidInputError(f"{text!r} is no list of columns to cluster by; write columns with commas between")
        names.append(match[1].strip())
        position = match.end()
        if not match[2]:
            return names


def configured_layout(schema: LanceSchema, config: Mapping[str, str], curve: str = "hilbert") -> Layout | None:
    """The layout of the property; None without one. Raises as `Layout.of` if columns are no longer there."""
    text = config.get(CLUSTERING_COLUMNS, "")
    return Layout.of(schema, column_names(text), curve) if text.strip() else None


def required_layout(
    schema: LanceSchema, config: Mapping[str, str], columns: Sequence[str] | str | None, curve: str
) -> Layout:
    """The layout over `columns`, else over those of the property.

    Raises:
        InvalidInputError: there are neither; and as `Layout.of`.
        NotFoundError: no such column.
    """
    if columns is not None:
        return Layout.of(schema, [columns] if isinstance(columns, str) else list(columns), curve)
    layout = configured_layout(schema, config, curve)
    if layout is None:
        raise InvalidInputError(f"the table has no clustering columns; name some, or set {CLUSTERING_COLUMNS}")
    return layout


def check_clustering(schema: LanceSchema, text: str | None) -> None:
    """Passes if a table with this schema can be clustered by the columns that `text`, a value of the property, names.

    Raises: as `Layout.of`.
    """
    if text is not None and text.strip():
        Layout.of(schema, column_names(text))


def _key(finder: FieldFinder, column: str, curve: str) -> ClusteringKey:
    match = _DIRECTION.fullmatch(column.strip()) if curve == "sort" else None
    path = parse_path(match[1] if match else column.strip())
    fields = finder.find(path)
    if len(fields) != len(path) or any(not field.logical_type.startswith("struct") for field in fields[:-1]):
        raise InvalidInputError(f"column {column!r} is inside of a list or a map, so rows cannot be ordered by it")
    dtype = to_arrow_type(fields[-1])
    if not _has_order(fields[-1], dtype):
        raise InvalidInputError(f"rows cannot be ordered by column {column!r} of type {dtype}")
    return ClusteringKey(tuple(path), fields[-1].id, match is not None and match[2].lower() == "desc")


def _has_order(field: Field, dtype: pa.DataType) -> bool:
    if field.children or isinstance(dtype, pa.BaseExtensionType):
        return False
    dtype = dtype.value_type if pt.is_dictionary(dtype) else dtype
    texts = pt.is_string(dtype) or pt.is_large_string(dtype) or pt.is_binary(dtype) or pt.is_large_binary(dtype)
    numbers = pt.is_boolean(dtype) or pt.is_integer(dtype) or pt.is_floating(dtype) or pt.is_decimal(dtype)
    return bool(texts or numbers or pt.is_temporal(dtype) or pt.is_fixed_size_binary(dtype))


def encoded(layout: Layout, digests: Mapping[int, int]) -> str:
    """A record of clustered fragments, as it is in the config: by id, a digest of each.

    >>> decoded(encoded(Layout((), "sort"), {7: 255}))
    (Layout(keys=(), curve='sort'), {7: 255})
    """
    fragments = ",".join(f"{number:x}:{digest:x}" for number, digest in sorted(digests.items()))
    return json.dumps({**layout.to_dict(), "fragments": fragments}, separators=(",", ":"))


def decoded(text: str) -> tuple[Layout, dict[int, int]] | None:
    """The record that `encoded` gave; None for anything else: then nothing counts as clustered."""
    try:
        content = json.loads(text)
        pairs = (part.split(":") for part in content["fragments"].split(",") if part)
        return Layout.from_dict(content), {int(number, 16): int(digest, 16) for number, digest in pairs}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
