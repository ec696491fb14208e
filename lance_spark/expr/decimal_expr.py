"""Whole numbers and decimals as Spark computes with them: columns, constants, and `+`, `-`, `*` of decimals.

A decimal is its number without the point, the scale is in the type. Types follow Spark's rules: a sum has
max(s1, s2) digits after the point and max(p1 - s1, p2 - s2) + 1 before it, a product p1 + p2 + 1 in all, s1 + s2 of
them after the point. Where that is more than 38 Spark cuts digits; here only of those before the point, and values that
need them are Spark's overflow: decimal(15,2) * decimal(16,2) * decimal(16,2) is decimal(49,6), cut to decimal(38,6).

Numbers are computed in 64 bits where the bounds of the operands show that nothing overflows, else as Python's ints.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidInputError

MAX_PRECISION = 38
MAX_INT64 = (1 << 63) - 1
_LEAST_SCALE = 6
"""Spark keeps at least this many digits after the point."""


@dataclass(frozen=True, slots=True)
class Number:
    """An expression over the columns of a batch, one of "column", "constant", "+", "-", "*".

    Attributes:
        kind: which.
        precision, scale: of the decimal; the precision of a whole number is 0.
        is_cut: the rules ask for more digits than a decimal has, so values have to be looked at.
        column: the name of a column.
        constant: the number without its point.
        operands: two.
    """

    kind: str
    precision: int
    scale: int = 0
    is_cut: bool = False
    column: str = ""
    constant: int = 0
    operands: tuple[Number, ...] = ()

    def columns(self) -> Iterator[str]:
        """Names of the columns, from left to right."""
        if self.kind == "column":
            yield self.column
        for operand in self.operands:
            yield from operand.columns()

    @property
    def arrow_type(self) -> pa.DataType:
        """Arrow type in which the values are summed: int64, or the decimal itself."""
        return pa.decimal128(self.precision, self.scale) if self.precision else pa.int64()

    @property
    def limit(self) -> int:
        """The largest number, without its point, that a value of the type of a sum can be."""
        return 10**self.precision - 1 if self.precision else MAX_INT64

    def __str__(self) -> str:
        if self.kind == "column":
            return self.column
        if self.kind == "constant":
            return str(Decimal((int(self.constant < 0), _digits(self.constant), -self.scale)))
        left, right = (f"({operand})" if operand.operands else str(operand) for operand in self.operands)
        return f"{left} {self.kind} {right}"


def _digits(value: int) -> tuple[int, ...]:
    return tuple(map(int, str(abs(value))))


def arithmetic(kind: str, left: Number, right: Number) -> Number | None:
    """`left` and `right`, decimals, combined by "+", "-" or "*"; None if Spark cuts digits after the point."""
    if kind == "*":
        scale = left.scale + right.scale
        precision = left.precision + right.precision + 1
    else:
        scale = max(left.scale, right.scale)
        precision = max(left.precision - left.scale, right.precision - right.scale) + scale + 1
    is_cut = precision > MAX_PRECISION
    if is_cut and scale > max(MAX_PRECISION - (precision - scale), min(scale, _LEAST_SCALE)):
        return None
    return Number(kind, min(precision, MAX_PRECISION), scale, is_cut, operands=(left, right))


@dataclass(frozen=True, slots=True)
class Numbers:
    """The values of a `Number`, without points.

    Attributes:
        values: int64[n], or Python's ints; something within the bounds where there is none.
        low, high: no value is beyond these.
        valid: bool[n], where there is a value; None if everywhere.
    """

    values: npt.NDArray[np.int64] | npt.NDArray[np.object_]
    low: int
    high: int
    valid: npt.NDArray[np.bool_] | None = None

    @property
    def largest(self) -> int:
        """No value is farther from 0."""
        return max(abs(self.low), abs(self.high))

    def total(self) -> int | None:
        """The sum; None of no values. No sum of 64-bit values may be longer than that."""
        if self.valid is None:
            return int(self.values.sum())
        return int(self.values[self.valid].sum()) if self.valid.any() else None

    @property
    def is_long(self) -> bool:
        """Whether the values are in 64 bits."""
        return self.values.dtype == np.int64

    def to_arrow(self, scale: int) -> pa.Array:
        """int64, or decimal128(38, scale) of longer numbers."""
        if self.is_long:
            return pa.array(self.values, mask=None if self.valid is None else ~self.valid)
        return to_decimals(self.values, self.valid, pa.decimal128(MAX_PRECISION, scale))


def evaluate(number: Number, batch: pa.RecordBatch, known: dict[Number, Numbers]) -> Numbers:
    """The values of `number` in the rows of `batch`, at least one.

    Args:
        known: what has been computed of the batch; this is added.

    Raises:
        InvalidInputError: a value has more digits than Spark's decimals.
    """
    if number not in known:
        known[number] = _evaluate(number, batch, known)
    return known[number]


def _evaluate(number: Number, batch: pa.RecordBatch, known: dict[Number, Numbers]) -> Numbers:
    if number.kind == "column":
        return _read(batch.column(number.column))
    if number.kind == "constant":
        return Numbers(_array([number.constant]), number.constant, number.constant)
    left, right = (evaluate(operand, batch, known) for operand in number.operands)
    valid = _both(left.valid, right.valid)
    if number.kind == "*":
        result = _multiplied(left, right, valid)
    else:
        scales = [operand.scale for operand in number.operands]
        left, right = (
            _times(side, 10 ** (number.scale - scale)) for side, scale in zip((left, right), scales, strict=True)
        )
        result = _added(left, right, valid) if number.kind == "+" else _added(left, _times(right, -1), valid)
    if number.is_cut:
        _check(number, result)
    return result


def _read(array: pa.Array) -> Numbers:
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    whole = unscaled(array) if pt.is_decimal(array.type) else array.cast(pa.int64())
    values: npt.NDArray[np.int64] | npt.NDArray[np.object_]
    if whole is not None:
        values = (whole if valid is None else whole.fill_null(0)).to_numpy()
    else:
        values = of_decimals(array)
        if valid is not None:
            values = np.where(valid, values, 0)
    return Numbers(values, int(values.min()), int(values.max()), valid)


def unscaled(array: pa.Array) -> pa.Array | None:
    """int64[len(array)]: decimals (decimal128) as numbers without their point; None if one of them is longer."""
    validity = array.is_valid().buffers()[1] if array.null_count else None
    if not len(array):
        return pa.array([], pa.int64())
    words = np.frombuffer(array.buffers()[1], np.int64, 2 * len(array), 16 * array.offset).reshape(-1, 2)
    low = np.ascontiguousarray(words[:, 0])
    wide = words[:, 1] != low >> 63
    # What lies under a null is no value.
    if wide.any() and (validity is None or bool((wide & array.is_valid().to_numpy(zero_copy_only=False)).any())):
        return None
    return pa.Array.from_buffers(pa.int64(), len(array), [validity, pa.py_buffer(low)], array.null_count)


def of_decimals(array: pa.Array) -> npt.NDArray[np.object_]:
    """Python's ints: decimals without their point, anything for null."""
    words = np.frombuffer(array.buffers()[1], np.uint64, 2 * len(array), 16 * array.offset).reshape(-1, 2)
    high = words[:, 1].astype(np.int64).astype(np.object_)
    numbers: npt.NDArray[np.object_] = high * (1 << 64) + words[:, 0].astype(np.object_)
    return numbers


def to_decimals(
    values: npt.NDArray[np.int64] | npt.NDArray[np.object_], valid: npt.NDArray[np.bool_] | None, dtype: pa.DataType
) -> pa.Array:
    """`values` as decimal128; all of them fit."""
    if values.dtype == np.int64:
        words = np.empty((len(values), 2), np.int64)
        words[:, 0] = values
        words[:, 1] = values >> 63
        data = pa.py_buffer(words)
    else:
        data = pa.py_buffer(b"".join(int(value).to_bytes(16, "little", signed=True) for value in values))
    validity = None if valid is None else pa.array(valid).buffers()[1]
    return pa.Array.from_buffers(dtype, len(values), [validity, data])


def _array(values: list[int]) -> npt.NDArray[np.int64] | npt.NDArray[np.object_]:
    if _fits(*values):
        return np.array(values, np.int64)
    return np.array(values, np.object_)


def _both(one: npt.NDArray[np.bool_] | None, other: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _fits(*bounds: int) -> bool:
    return all(abs(bound) <= MAX_INT64 for bound in bounds)


def _long_or_int(*sides: Numbers, bounds: tuple[int, ...]) -> list[npt.NDArray[np.int64] | npt.NDArray[np.object_]]:
    """The values of `sides` in such types that results within `bounds` are right."""
    if _fits(*bounds) and all(side.is_long for side in sides):
        return [side.values for side in sides]
    return [side.values.astype(np.object_) for side in sides]


def _times(side: Numbers, factor: int) -> Numbers:
    if factor == 1:
        return side
    low, high = sorted((side.low * factor, side.high * factor))
    (values,) = _long_or_int(side, bounds=(low, high, factor))
    return Numbers(values * factor, low, high, side.valid)


def _added(left: Numbers, right: Numbers, valid: npt.NDArray[np.bool_] | None) -> Numbers:
    low, high = left.low + right.low, left.high + right.high
    one, other = _long_or_int(left, right, bounds=(low, high))
    return Numbers(one + other, low, high, valid)


def _multiplied(left: Numbers, right: Numbers, valid: npt.NDArray[np.bool_] | None) -> Numbers:
    products = [one * other for one in (left.low, left.high) for other in (right.low, right.high)]
    low, high = min(products), max(products)
    one, other = _long_or_int(left, right, bounds=(low, high))
    return Numbers(one * other, low, high, valid)


def _check(number: Number, found: Numbers) -> None:
    if found.largest <= number.limit:
        return
    beyond = np.abs(found.values.astype(np.object_)) > number.limit
    if found.valid is not None:
        beyond &= found.valid
    if beyond.any():
        raise InvalidInputError(
            f"{number} is {found.values[beyond.argmax()]}E-{number.scale} in a row, which is more than "
            f"decimal({number.precision},{number.scale}) holds; cast the columns to decimals of fewer digits"
        )
