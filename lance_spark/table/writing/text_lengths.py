"""Checks that strings are not longer than the CHAR(n) or VARCHAR(n) that their column was declared with."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.errors import InvalidInputError
from lance_spark.schema.text_type import TEXT_TYPE, text_type


def has_length(field: pa.Field) -> bool:
    """True if `field` or a field inside of it is CHAR(n) or VARCHAR(n)."""
    if text_type((field.metadata or {}).get(TEXT_TYPE)) is not None:
        return True
    return any(has_length(field.type.field(number)) for number in range(field.type.num_fields))


def check_lengths(array: pa.Array, field: pa.Field, path: str) -> None:
    """Passes if no value is longer, in characters, than `field` allows; `array` has its type.

    Raises:
        InvalidInputError: a value is too long; the message has the column, `path`, and both lengths.
    """
    if not has_length(field):
        return
    dtype = field.type
    if pt.is_struct(dtype):
        for child, values in zip(dtype, array.flatten(), strict=True):
            check_lengths(values, child, f"{path}.{child.name}")
    elif pt.is_map(dtype):
        start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
        check_lengths(array.keys.slice(start, stop - start), dtype.key_field, f"{path}.key")
        check_lengths(array.items.slice(start, stop - start), dtype.item_field, f"{path}.value")
    elif dtype.num_fields:
        check_lengths(array.flatten(), dtype.value_field, f"{path}.{dtype.value_field.name}")
    else:
        _check_strings(array, field, path)


def _check_strings(array: pa.Array, field: pa.Field, path: str) -> None:
    declared = text_type((field.metadata or {}).get(TEXT_TYPE))
    strings = array.dictionary_decode() if pt.is_dictionary(array.type) else array
    longest = pc.max(pc.utf8_length(strings)).as_py() if len(strings) else None
    if declared is not None and longest is not None and longest > declared.length:
        raise InvalidInputError(
            f"column {path!r} is {declared}, and a value has {longest} characters; shorten it, or make the "
            "column a longer VARCHAR"
        )
