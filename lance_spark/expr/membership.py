"""`IN` with a list, by hash lookup where possible."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.expr.comparison import align, compare, scalar_as_double, to_double
from lance_spark.expr.grid import EXACT_FAMILIES, grid_of, threshold
from lance_spark.expr.literals import Literal
from lance_spark.expr.nodes import ComparisonOp
from lance_spark.expr.values import NUMBERS, Family, Operand, family_of, required_family


@dataclass(frozen=True, slots=True)
class Options:
    """The right side of IN, prepared for values of one type.

    Attributes:
        operands: the options; can be left out where they are `known`.
        known: the options that a value can equal, in the values' type; None if they must be compared one by one.
        has_null: whether an option is null; set only with `known`.
        has_nan: whether a known option is NaN.
    """

    operands: tuple[Operand, ...]
    known: pa.Array | None = None
    has_null: bool = False
    has_nan: bool = False


def options_of(type_: pa.DataType, operands: Sequence[Operand], time_zone: str) -> Options:
    """The options for values of a type; arguments and errors as `is_member`."""
    is_number = family_of(type_) in NUMBERS
    if is_number and any(family_of(operand.type) is Family.FLOAT for operand in operands):
        # One floating point option makes the list floating point (Spark coerces to one type).
        operands = [to_double(operand) if family_of(operand.type) in NUMBERS else operand for operand in operands]
    constants = _value_set(pa.array([], type_), operands, time_zone)
    if constants is None:
        return Options(tuple(operands))
    has_null = any(not operand.is_valid for operand in operands)
    has_nan = pa.types.is_float64(constants.type) and pc.any(pc.is_nan(constants)).as_py() is True
    return Options(tuple(operands), constants, has_null, has_nan)


@dataclass(frozen=True, slots=True, eq=False)
class _Constants:
    """Constants with identity equality: to compare thousands of them takes longer than to read a batch."""

    literals: Sequence[Literal]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Constants) and other.literals is self.literals

    def __hash__(self) -> int:
        return id(self.literals)


@functools.lru_cache(maxsize=64)
def _constant_options(type_: pa.DataType, constants: _Constants, time_zone: str) -> Options:
    constant_set = _known_at_once(type_, constants.literals)
    if constant_set is not None:
        return Options((), constant_set)
    return options_of(type_, [literal.scalar() for literal in constants.literals], time_zone)


def _known_at_once(type_: pa.DataType, literals: Sequence[Literal]) -> pa.Array | None:
    """The options for whole numbers or texts, if all constants are such; scalars of thousands take longer than a search
    for their rows.
    """
    family = family_of(type_)
    types = {id(literal.type): literal.type for literal in literals}.values()
    if family not in (Family.INTEGER, Family.STRING) or any(family_of(item) is not family for item in types):
        return None
    values = [literal.value for literal in literals]
    if None in values:
        return None
    if family is Family.INTEGER:
        grid = grid_of(type_)
        # Outside of the range of the column nothing equals them.
        values = [value for value in values if grid.lowest <= value <= grid.highest]  # type: ignore[operator]
    return pa.array(values, type_)


def constant_options(type_: pa.DataType, literals: Sequence[Literal], time_zone: str) -> Options:
    """`options_of`, cached for following batches of arrays with the same sequence."""
    return _constant_options(type_, _Constants(literals), time_zone)


def is_member(value: Operand, options: Options, time_zone: str) -> Operand:
    """Truth of `value IN (options)`: null if the value is, or if nothing matches and an option is null.

    Raises:
        InvalidInputError: an option cannot be compared with the value.
    """
    required_family(value, "IN")
    if options.known is None or not isinstance(value, pa.Array):
        matches = (compare(ComparisonOp.EQ, value, option, time_zone) for option in options.operands)
        return functools.reduce(pc.or_kleene, matches)
    if family_of(value.type) is Family.FLOAT:
        # The lookup distinguishes -0.0 from 0.0; adding 0.0 unifies them.
        value = pc.add(value.cast(pa.float64()), 0.0)
    is_in = pc.is_in(value, value_set=options.known)
    if options.has_nan:
        # It also distinguishes NaNs by their bits, the sign among them.
        is_in = pc.or_(is_in, pc.is_nan(value))
    null = pa.scalar(None, pa.bool_())
    if options.has_null:
        return pc.if_else(is_in, pa.scalar(True), null)
    return pc.if_else(pc.is_valid(value), is_in, null) if value.null_count else is_in


def _value_set(value: pa.Array, options: Sequence[Operand], time_zone: str) -> pa.Array | None:
    """The options as an array of the value's type, without those that no value can equal; None if not possible."""
    if not all(isinstance(option, pa.Scalar) for option in options):
        return None
    scalars = [option for option in options if option.is_valid]
    family = family_of(value.type)
    if family in EXACT_FAMILIES:
        return _exact_set(value, scalars, time_zone)
    if family is Family.FLOAT and all(family_of(scalar.type) in NUMBERS for scalar in scalars):
        return pc.add(pa.array([scalar_as_double(scalar) for scalar in scalars], pa.float64()), 0.0)
    if family in (Family.STRING, Family.BINARY) and all(family_of(scalar.type) is family for scalar in scalars):
        return pa.array([scalar.as_py() for scalar in scalars], value.type)
    return None


def _exact_set(value: pa.Array, scalars: Sequence[pa.Scalar], time_zone: str) -> pa.Array | None:
    grid = grid_of(value.type)
    if all(family is Family.INTEGER for family in {family_of(value.type), *(family_of(item.type) for item in scalars)}):
        # The rule below takes 20 us for each number.
        return pa.array([number for number in (item.as_py() for item in scalars) if grid.contains(number)], value.type)
    ticks = []
    for scalar in scalars:
        left, right = align(value, scalar, time_zone)
        families = {family_of(left.type), family_of(right.type)}
        if left is not value or not (len(families) == 1 or families == {Family.INTEGER, Family.DECIMAL}):
            return None
        limits = threshold(value.type, right)
        ticks += [limits.upto] if limits.upto - limits.below == 1 and grid.contains(limits.upto) else []
    return pa.array([grid.value(tick) for tick in ticks], value.type)
