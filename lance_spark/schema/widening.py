"""Widening of types: whether a type can represent all values of another one.

A value out of range after all, such as a date beyond the years of a timestamp in nanoseconds, is an error when values
are converted.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidInputError

_UNITS = {"s": 0, "ms": 1, "us": 2, "ns": 3}
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_EXACT_BITS = {16: 11, 32: 24, 64: 53}
"""Bit width of a floating-point type -> bits of integers that it represents exactly."""


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
