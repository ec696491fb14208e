"""Row ranges and fields prepared for a read; nothing here does I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from lance_spark.errors import InvalidInputError
from lance_spark.layouts.base import RowRanges
from lance_spark.schema.blob import is_blob_v1, stored
from lance_spark.schema.columns import is_blob
from lance_spark.schema.field import Field, FieldId


def merged_ranges(rows: RowRanges) -> RowRanges:
    """The same rows, without empty ranges and with adjacent ranges merged.

    Raises:
        InvalidInputError: the ranges are not ascending, or overlap.
    """
    if rows.are_apart:
        return rows
    keep = rows.stops > rows.starts
    starts, stops = rows.starts[keep], rows.stops[keep]
    if len(starts) < 2:
        return RowRanges(starts, stops)
    if bool((starts[1:] < stops[:-1]).any()):
        raise InvalidInputError("ranges of rows must be ascending and must not overlap")
    opens = np.ones(len(starts), np.bool_)
    opens[1:] = starts[1:] > stops[:-1]
    closes = np.append(opens[1:], True)
    return RowRanges(starts[opens], stops[closes])


def described_blobs(field: Field, held_fields: Mapping[FieldId, Field]) -> Field:
    """`field` with blob fields as they are stored in the file.

    Since 2.2 data files contain blob descriptors (a struct of kind, position, size, id, URI), while the table's
    schema has the type of the blob itself. Of files of older versions the values are read, or their positions and sizes
    if `field` is a description.

    Args:
        held_fields: the fields of the file's schema by their ids.
    """
    if is_blob(field):
        held = held_fields.get(field.id)
        if held is not None and is_blob_v1(held) and field.children:
            return stored(replace(held, name=field.name, nullable=field.nullable))
        if held is None or not held.children:
            return field
        return Field(field.name, field.id, "struct", field.nullable, held.children, held.metadata)
    children = tuple(described_blobs(child, held_fields) for child in field.children)
    return field if children == field.children else field.with_children(children)
