"""VARIANT: columns of structs with the extension `arrow.parquet.variant` (docs/design/037-types-and-constraints.md).

Spark and its workers exchange such values as structs of `value` and `metadata`; the table keeps the same two binaries
in the order of the Parquet format. A struct with a third member is a shredded variant, which Spark reads as a struct.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.schema.extension import EXTENSION_NAME

VARIANT_NAME = b"arrow.parquet.variant"
_NAME = EXTENSION_NAME.encode()
_METADATA, _VALUE = "metadata", "value"
VARIANT_METADATA = {_NAME: VARIANT_NAME}
"""The metadata of a field with variants."""


def is_variant_field(field: pa.Field) -> bool:
    """Whether a column has variants, as stored or as exchanged with Spark."""
    if is_exchanged_variant(field.type):
        return True
    return (field.metadata or {}).get(_NAME) == VARIANT_NAME and _has_two_binaries(field.type)


def is_exchanged_variant(dtype: pa.DataType) -> bool:
    """Whether this is the struct in which Spark and its workers exchange variants."""
    return _has_two_binaries(dtype) and (dtype.field(_METADATA).metadata or {}).get(b"variant") == b"true"


def _has_two_binaries(dtype: pa.DataType) -> bool:
    if not pt.is_struct(dtype) or dtype.num_fields != 2 or {child.name for child in dtype} != {_METADATA, _VALUE}:
        return False
    return all(pt.is_binary(child.type) or pt.is_large_binary(child.type) for child in dtype)


def stored_variant_field(field: pa.Field) -> pa.Field | None:
    """The field in a table for a column as exchanged with Spark; None if it has no variants."""
    if not is_exchanged_variant(field.type):
        return None
    members = [pa.field(name, pa.binary(), nullable=False) for name in (_METADATA, _VALUE)]
    return pa.field(field.name, pa.struct(members), field.nullable, {**(field.metadata or {}), **VARIANT_METADATA})


def convert_variant(array: pa.Array, target: pa.DataType) -> pa.Array | None:
    """Variants between their forms in a table and in Spark; None if neither type is the struct of the exchange."""
    if not (is_exchanged_variant(target) or is_exchanged_variant(array.type)):
        return None
    if not (_has_two_binaries(array.type) and _has_two_binaries(target)):
        return None
    children = [filled(array.field(child.name)).cast(child.type) for child in target]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def filled(values: pa.Array) -> pa.Array:
    """A member of variants without nulls: the members of null variants are null, and the fields do not allow it."""
    return values.fill_null(b"") if values.null_count else values
