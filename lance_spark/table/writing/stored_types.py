"""Arrow types of rows to write, and the types with the same values that Lance has.

Views, runs and dictionaries are layouts of values, the order of a dictionary says nothing of its values, and narrow
decimals have wider ones. Types whose values Lance cannot hold stay as they are; the schema refuses them by name.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.schema.arrow import is_dictionary_value, is_fixed_size_list_type
from lance_spark.schema.extension import is_json_text, storage


def stored_field(field: pa.Field) -> pa.Field:
    """`field` with such a type at every level of nesting, and JSON text as binary documents; itself if it has one."""
    dtype = field.type
    is_extension = isinstance(dtype, pa.BaseExtensionType)
    stored = stored_type(dtype.storage_type if is_extension else dtype)
    if is_json_text(field):
        stored, metadata = storage(field)
    elif not is_extension:
        return field if stored == dtype else field.with_type(stored)
    elif stored == dtype.storage_type:
        return field
    else:
        _, metadata = storage(field)
    return pa.field(field.name, stored, field.nullable, metadata=metadata)


def stored_type(dtype: pa.DataType) -> pa.DataType:
    """The type that has the values of `dtype`, which is no extension type."""
    if pt.is_string_view(dtype):
        return pa.string()
    if pt.is_binary_view(dtype):
        return pa.binary()
    if pt.is_decimal32(dtype) or pt.is_decimal64(dtype):
        return pa.decimal128(dtype.precision, dtype.scale)
    if pt.is_run_end_encoded(dtype) and not isinstance(dtype.value_type, pa.BaseExtensionType):
        return stored_type(dtype.value_type)
    if pt.is_dictionary(dtype) and not isinstance(dtype.value_type, pa.BaseExtensionType):
        values = stored_type(dtype.value_type)
        return pa.dictionary(dtype.index_type, values) if is_dictionary_value(values) else values
    return _stored_nested(dtype) if dtype.num_fields else dtype


def _stored_nested(dtype: pa.DataType) -> pa.DataType:
    if pt.is_struct(dtype):
        return pa.struct([stored_field(child) for child in dtype])
    if pt.is_list(dtype) or pt.is_list_view(dtype):
        return pa.list_(stored_field(dtype.value_field))
    if pt.is_large_list(dtype) or pt.is_large_list_view(dtype):
        return pa.large_list(stored_field(dtype.value_field))
    if pt.is_fixed_size_list(dtype):
        item = stored_field(dtype.value_field)
        fixed = pa.list_(item, dtype.list_size)
        return fixed if is_fixed_size_list_type(fixed) else pa.list_(item)
    if pt.is_map(dtype):
        return pa.map_(stored_field(dtype.key_field), stored_field(dtype.item_field))
    return dtype
