"""Conversion of date and timestamp columns between local times and instants, and between units."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError
from lance_spark.expr.datetime_text import NANOS_PER_UNIT, is_utc
from lance_spark.expr.values import Operand, as_array

_FIRST, _LAST = -(2**63), 2**63 - 1

_WIDER_THAN_OFFSETS = 2 * 86_400 * 10**9
"""Nanoseconds; more than any UTC offset."""


def date_to_timestamp(dates: Operand) -> Operand:
    """Midnight of each date, without a zone; in seconds, which hold every date."""
    return dates.cast(pa.timestamp("s"))


def to_instants(local: Operand, time_zone: str) -> Operand:
    """The instants of `local` timestamps in the zone, in the same unit, with zone UTC.

    As in `java.time`: the earlier of two instants in an overlap, and a local time in a gap is shifted forward by the
    gap. An instant beyond 64 bits is clamped.
    """
    type_ = pa.timestamp(local.type.unit, "UTC")
    if is_utc(time_zone):
        return local.cast(pa.int64()).cast(type_)
    if isinstance(local, pa.Scalar):
        return to_instants(pa.repeat(local, 1), time_zone)[0]
    ticks = local.cast(pa.int64())
    margin = _WIDER_THAN_OFFSETS // NANOS_PER_UNIT[local.type.unit]
    bounds = pc.min_max(ticks)
    inner = local
    if (
        bounds["min"].is_valid
        and not _FIRST + margin <= bounds["min"].as_py() <= bounds["max"].as_py() <= _LAST - margin
    ):
        inner = _clipped(ticks, pa.scalar(_FIRST + margin), pa.scalar(_LAST - margin)).cast(local.type)
    # A nearby instant, on the right side of a gap, has the offset that java.time uses.
    near = pc.assume_timezone(inner, time_zone, ambiguous="earliest", nonexistent="earliest")
    offset = pc.subtract(pc.local_timestamp(near).cast(pa.int64()), near.cast(pa.int64()))
    if inner is not local:
        least = pc.add(pc.max_element_wise(offset, 0, skip_nulls=False), _FIRST)
        ticks = _clipped(ticks, least, pc.add(pc.min_element_wise(offset, 0, skip_nulls=False), _LAST))
    return pc.subtract_checked(ticks, offset).cast(type_)


def _clipped(ticks: pa.Array, least: Operand, most: Operand) -> pa.Array:
    return pc.max_element_wise(pc.min_element_wise(ticks, most, skip_nulls=False), least, skip_nulls=False)


def to_local(instants: Operand, time_zone: str) -> Operand:
    """The local time of each instant, as timestamps without a zone in the same unit."""
    if is_utc(time_zone):
        return instants.cast(pa.int64()).cast(pa.timestamp(instants.type.unit))
    return pc.local_timestamp(instants.cast(pa.timestamp(instants.type.unit, time_zone)))


def to_unit(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Timestamps, times or durations as `type_`, another unit of the same kind.

    A coarser unit rounds down (-1 ns is -1 us); null where a finer one overflows 64 bits.
    """
    source, target = NANOS_PER_UNIT[values.type.unit], NANOS_PER_UNIT[type_.unit]
    ticks = values.cast(pa.int64() if values.type.bit_width == 64 else pa.int32()).cast(pa.int64())
    if source >= target:
        limit = (2**63 - 1) // (source // target)
        fits = pc.and_(pc.greater_equal(ticks, -limit), pc.less_equal(ticks, limit))
        ticks = pc.multiply(pc.if_else(fits, ticks, pa.scalar(None, pa.int64())), source // target)
    else:
        ticks = _floor_divide(ticks, target // source)
    return ticks.cast(pa.int64() if type_.bit_width == 64 else pa.int32()).cast(type_)


_DAY_NANOS = 86_400 * 10**9


def shifted(moments: Operand, durations: Operand, *, back: bool) -> Operand:
    """Dates or timestamps plus durations, or minus them with `back`.

    A date moved by a constant number of days stays a date; else it becomes a timestamp without a zone.

    Raises:
        InvalidInputError: a result is beyond 64 bits.
    """
    if isinstance(moments, pa.Scalar) and isinstance(durations, pa.Scalar):
        return shifted(pa.repeat(moments, 1), durations, back=back)[0]
    rows = len(durations if isinstance(moments, pa.Scalar) else moments)
    moments, lengths = as_array(moments, rows), as_array(durations, rows)
    is_date = pa.types.is_date(moments.type)
    ticks = date_to_timestamp(moments) if is_date else moments
    # The unit of the finer one; seconds would lose parts of a duration.
    unit = min("us", ticks.type.unit, durations.type.unit, key=NANOS_PER_UNIT.__getitem__)
    type_ = pa.timestamp(unit, ticks.type.tz)
    ticks, steps = to_unit(ticks, type_), to_unit(lengths, pa.duration(unit)).cast(pa.int64())
    if ticks.null_count > moments.null_count or steps.null_count > lengths.null_count:
        raise InvalidInputError(f"a moment or a duration does not fit 64 bits of {unit}")
    try:
        moved = (pc.subtract_checked if back else pc.add_checked)(ticks.cast(pa.int64()), steps).cast(type_)
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"a moment moved by a duration is out of range: {error}") from error
    whole_days = isinstance(durations, pa.Scalar) and _nanos(durations) % _DAY_NANOS == 0
    return moved.cast(pa.date32()) if is_date and whole_days else moved


def _nanos(duration: pa.Scalar) -> int:
    return 0 if not duration.is_valid else int(duration.value) * NANOS_PER_UNIT[duration.type.unit]


def _floor_divide(values: pa.Array, divisor: int) -> pa.Array:
    quotient = pc.divide(values, divisor)
    too_high = pc.greater(pc.multiply(quotient, divisor), values)
    return pc.subtract(quotient, too_high.cast(pa.int64()))
