"""`truncate`: the first W characters of a string, or a number rounded towards zero to a multiple of W.

`left(col0, W)` counts characters (code points). `col0 - (col0 % W)` rounds towards zero, since the remainder has the
sign of the number: the partition 0 holds -W+1 .. W-1, where Iceberg's holds 0 .. W-1. For decimals W is a whole number,
not a number of unscaled units.

>>> Truncate(10).apply(pa.array([-10, -9, 9, 10, 19])).to_pylist(), Truncate(2).apply(pa.array(["äöü"])).to_pylist()
([-10, 0, 0, 10, 10], ['äö'])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError
from lance_spark.expr.function_names import FunctionName
from lance_spark.expr.grid import exact_value, grid_of
from lance_spark.expr.literals import literal
from lance_spark.expr.nodes import Column, Expr, Function
from lance_spark.expr.values import Family, family_of, plain
from lance_spark.partitioned.transforms.base import Keep, Reducer, SourceColumn, Transform, integer_parameter
from lance_spark.partitioned.transforms.identity import in_value_set, one_zero_one_nan, value_type
from lance_spark.partitioned.values.key_space import (
    INFINITY_RANK,
    KeySpace,
    plain_type_of,
    prefix_interval,
    rank_of,
    space_of,
)
from lance_spark.partitioned.values.value_set import ALL_VALUES, ONLY_NULL, Interval, ValueSet, between, of_intervals


@dataclass(frozen=True, slots=True)
class Truncate(Transform):
    """The value truncated to `width`."""

    width: int
    name = "truncate"

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Truncate:
        return cls(integer_parameter(members, "width", 2**31 - 1))

    def to_json(self) -> dict[str, Any]:
        return {"type": self.name, "width": self.width}

    def check_sources(self, sources: Sequence[pa.DataType]) -> None:
        super(Truncate, self).check_sources(sources)
        family = family_of(plain_type_of(sources[0]))
        if family not in (*_APPLY, Family.NULL) or value_type(sources[0]) == pa.float16():
            raise InvalidInputError(f"transform {self.name} takes a string or a number, got {sources[0]}")

    def result_type(self, sources: Sequence[pa.DataType]) -> pa.DataType:
        self.check_sources(sources)
        return value_type(sources[0])

    def apply(self, *columns: pa.Array) -> pa.Array:
        (column,) = columns
        type_ = self.result_type([column.type])
        values = plain(column)
        family = family_of(values.type)
        if family is Family.NULL:
            return values
        assert family is not None  # result_type refuses the others
        return _APPLY[family](values, self.width).cast(type_)

    def derived_expression(self, sources: Sequence[pa.DataType]) -> str:
        if family_of(plain_type_of(sources[0])) is Family.STRING:
            return f"left(col0, {self.width})"
        return f"col0 - (col0 % {self.width})"

    def filter_expression(
        self, columns: Sequence[Column], sources: Sequence[pa.DataType], time_zone: str
    ) -> Expr | None:
        if family_of(plain_type_of(sources[0])) is not Family.STRING:
            return None
        return Function(FunctionName.SUBSTRING, (columns[0], literal(1), literal(self.width)))

    def _project_values(self, source: SourceColumn, partition: Column) -> Expr | None:
        space = source.space
        family = family_of(space.type)
        assert family is not None  # it has keys
        image = _IMAGES[family](space, self.width, source.values)
        return in_value_set(partition, space, space.normalized(image)) if not image.has_all_values else None

    def domain(self, value: pa.Scalar, source: pa.DataType) -> ValueSet:
        if not value.is_valid:
            return ONLY_NULL
        space = space_of(source)
        find = _DOMAINS.get(family_of(plain_type_of(source)))
        return ALL_VALUES if space is None or find is None else find(literal(value).scalar(), space, self.width)

    def reducer(self, other: Transform) -> Reducer | None:
        if not isinstance(other, Truncate):
            return None
        return Keep() if self == other else None


def _texts(values: pa.Array, width: int) -> pa.Array:
    return pc.utf8_slice_codeunits(values, start=0, stop=width)


def _integers(values: pa.Array, width: int) -> pa.Array:
    # Arrow has no remainder function; numpy's fmod has the sign of the dividend. A width out of the type's range gives
    # zero, as it would after widening.
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    highest = np.iinfo(numbers.dtype).max
    truncated = numbers - np.fmod(numbers, numbers.dtype.type(width)) if width <= highest else _beyond(numbers, width)
    return pa.array(truncated, values.type, mask=_nulls(values))


def _beyond(numbers: Any, width: int) -> Any:
    """Zeros, except for the lowest number of a signed type, which may reach a width beyond the highest number."""
    reaches = -numbers.astype(np.int64) >= width if numbers.dtype.kind == "i" else np.zeros(len(numbers), bool)
    return np.where(reaches, numbers, numbers.dtype.type(0))


def _floats(values: pa.Array, width: int) -> pa.Array:
    numbers = values.fill_null(0.0).to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore"):
        truncated = numbers - np.fmod(numbers, numbers.dtype.type(width))
    return one_zero_one_nan(pa.array(truncated, values.type, mask=_nulls(values)))


def _decimals(values: pa.Array, width: int) -> pa.Array:
    """Uses numpy for unscaled values that fit into 64 bits, and Python's integers for larger ones."""
    type_ = values.type
    step = width * 10**type_.scale
    limbs = type_.byte_width // 8
    data = values.buffers()[1]
    if data is None or len(values) == 0:
        return values
    words = np.frombuffer(data, np.int64, len(values) * limbs, values.offset * type_.byte_width)
    words = np.where(_known(values)[:, None], words.reshape(len(values), limbs), 0)
    is_small = (words[:, 1:] == (words[:, :1] >> 63)).all(axis=1)
    truncated = np.zeros_like(words)
    if step < 2**63:
        low = words[:, 0]
        truncated[:, 0] = low - np.fmod(low, step)
        truncated[:, 1:] = truncated[:, :1] >> 63
    for row in np.flatnonzero(~is_small):
        number = int.from_bytes(words[row].tobytes(), "little", signed=True)
        number -= int(math.copysign(1, number)) * (abs(number) % step)
        truncated[row] = np.frombuffer(number.to_bytes(type_.byte_width, "little", signed=True), np.int64)
    validity = pa.array(_known(values)).buffers()[1] if values.null_count else None
    return pa.Array.from_buffers(type_, len(values), [validity, pa.py_buffer(truncated)])


def _known(values: pa.Array) -> Any:
    return values.is_valid().to_numpy(zero_copy_only=False)


def _nulls(values: pa.Array) -> Any:
    return ~_known(values) if values.null_count else None


_APPLY: dict[Family, Callable[[pa.Array, int], pa.Array]] = {
    Family.STRING: _texts,
    Family.INTEGER: _integers,
    Family.FLOAT: _floats,
    Family.DECIMAL: _decimals,
}


def _toward_zero(number: int, step: int) -> int:
    return number - number % step if number >= 0 else number + -number % step


def _text_image(space: KeySpace, width: int, values: ValueSet) -> ValueSet:
    def image(interval: Interval) -> Interval:
        low, high = interval
        if high is not None:
            # A text before `high` can have the same prefix only if `high` is longer than it.
            high = space.successor(high[:width]) if len(high) > width else high
        return None if low is None else low[:width], high

    return of_intervals(map(image, values.intervals))


def _tick_image(space: KeySpace, width: int, values: ValueSet) -> ValueSet:
    step = int(width / grid_of(space.type).tick)
    return of_intervals(
        (None if low is None else _toward_zero(low, step), None if high is None else _toward_zero(high - 1, step) + 1)
        for low, high in values.intervals
    )


def _float_image(space: KeySpace, width: int, values: ValueSet) -> ValueSet:
    """Rounding preserves the order; infinities have no remainder and become NaN, the highest value."""
    image: list[Interval] = []
    for low, high in values.intervals:
        first = 1 - INFINITY_RANK if low is None else max(low, 1 - INFINITY_RANK)
        last = (INFINITY_RANK if high is None else min(high, INFINITY_RANK)) - 1
        bound = _truncated(_as_column(space, first, -np.inf), width)
        if high is None or high > INFINITY_RANK:
            image.append((bound, None))
        elif first <= last:
            image.append((bound, _truncated(_as_column(space, last, np.inf), width) + 1))
        if low is None or low == -INFINITY_RANK:
            image.append((INFINITY_RANK + 1, None))
    return of_intervals(image)


def _as_column(space: KeySpace, rank: int, outward: float) -> Any:
    """The number of a rank in the column's own type, rounded towards `outward` if between two values."""
    exact: Any = space.value(rank)
    own = np.dtype("f4" if space.type == pa.float32() else "f8").type
    highest = float(np.finfo(own).max)
    near = own(min(max(exact, -highest), highest))
    # Compared as doubles: numpy would round the other operand to the narrower type.
    if float(near) == exact or (float(near) > exact) == (outward > 0):
        return near
    with np.errstate(over="ignore"):
        return np.nextafter(near, own(outward))


def _truncated(number: Any, width: int) -> int:
    finite = np.clip(number, np.finfo(number).min, np.finfo(number).max)
    return rank_of(float(finite - np.fmod(finite, type(finite)(width))))


_IMAGES: dict[Family, Callable[[KeySpace, int, ValueSet], ValueSet]] = {
    Family.STRING: _text_image,
    Family.INTEGER: _tick_image,
    Family.DECIMAL: _tick_image,
    Family.FLOAT: _float_image,
}


def _text_domain(value: pa.Scalar, space: KeySpace, width: int) -> ValueSet:
    text = value.as_py()
    return between(text, text + "\0") if len(text) < width else between(*prefix_interval(text))


def _tick_domain(value: pa.Scalar, space: KeySpace, width: int) -> ValueSet:
    tick = grid_of(space.type).tick
    step, ticks = int(width / tick), int(exact_value(value) / tick)
    low, high = ticks if ticks > 0 else ticks - step + 1, ticks + step if ticks >= 0 else ticks + 1
    return space.normalized(between(low, high))


_DOMAINS: dict[Family | None, Callable[[pa.Scalar, KeySpace, int], ValueSet]] = {
    Family.STRING: _text_domain,
    Family.INTEGER: _tick_domain,
    Family.DECIMAL: _tick_domain,
}
