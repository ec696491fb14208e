"""Store assignment: conversion of values to a column's type, as for SET of an UPDATE.

As in Spark's ANSI mode a value is stored if its type family fits the column's; a value out of range is an error.
The only silent changes are rounding of integers and decimals to the nearest double, and of decimals to the scale of
the column. Other conversions (number from text, date from timestamp, integer from 1.5) need a CAST.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError
from lance_spark.expr import casts
from lance_spark.expr.columns import column_values
from lance_spark.expr.comparison import align
from lance_spark.expr.evaluate import evaluate
from lance_spark.expr.literals import Literal
from lance_spark.expr.nodes import Column, Expr
from lance_spark.expr.sql.calls import ArrayOf
from lance_spark.expr.values import Family, family_of

_EXACT = {
    *((family, family) for family in Family if family not in (Family.NULL, Family.FLOAT, Family.DECIMAL)),
    (Family.FLOAT, Family.INTEGER),
    (Family.DECIMAL, Family.INTEGER),
}
"""Conversions between families by Arrow's casts, which raise an error where a value would change."""

_NEAREST = {
    (Family.INTEGER, Family.FLOAT),
    (Family.DECIMAL, Family.FLOAT),
    (Family.FLOAT, Family.FLOAT),
    (Family.INTEGER, Family.DECIMAL),
    (Family.DECIMAL, Family.DECIMAL),
    (Family.DATE, Family.TIMESTAMP),
    (Family.DATE, Family.TIMESTAMP_NTZ),
    (Family.TIMESTAMP, Family.TIMESTAMP_NTZ),
    (Family.TIMESTAMP_NTZ, Family.TIMESTAMP),
}
"""Conversions as for CAST, which give null where the target cannot represent a value."""


def assigned(expr: Expr, batch: pa.RecordBatch, type_: pa.DataType, *, time_zone: str = "UTC") -> pa.Array:
    """The value of `expr` for each row of `batch`, converted to `type_`.

    Args:
        type_: a storage type, no extension type.

    Raises:
        NotFoundError: a column is not in the batch.
        InvalidInputError: a value of an incompatible type or out of range, or an error of the expression.
    """
    if isinstance(expr, Column):
        values = column_values(batch, expr.path)
        while isinstance(values, pa.ExtensionArray):
            values = values.storage
        if values.type == type_:
            return values
    if isinstance(expr, ArrayOf):
        return _list(expr, batch, type_, time_zone)
    try:
        return _stored(_evaluated(expr, batch, type_, time_zone), type_, time_zone)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(f"{expr} does not fit a column of type {type_}: {error}") from error
    except InvalidInputError as error:
        raise InvalidInputError(f"{error} (assigned: {expr})") from error


def constant(expr: Expr, type_: pa.DataType) -> pa.Array:
    """The value of an expression without columns, as an array of one row. Raises as `assigned`."""
    return assigned(expr, pa.RecordBatch.from_pylist([{"row": 0}]), type_)


def _list(expr: ArrayOf, batch: pa.RecordBatch, type_: pa.DataType, time_zone: str) -> pa.Array:
    """The value of `array(items)`, which only columns of lists hold."""
    if not pa.types.is_list(type_) and not pa.types.is_large_list(type_) and not pa.types.is_fixed_size_list(type_):
        raise InvalidInputError(f"{expr} does not fit a column of type {type_}")
    width = len(expr.items)
    if pa.types.is_fixed_size_list(type_) and width != type_.list_size:
        raise InvalidInputError(f"{expr} has {width} items, its column of type {type_} takes {type_.list_size}")
    columns = [assigned(item, batch, type_.value_type, time_zone=time_zone) for item in expr.items]
    # The items of the first row, then the items of the second one.
    places = np.arange(width * batch.num_rows).reshape(width, batch.num_rows).T.ravel()
    items = pa.concat_arrays([pa.nulls(0, type_.value_type), *columns]).take(pa.array(places))
    if pa.types.is_fixed_size_list(type_):
        return pa.FixedSizeListArray.from_arrays(items, type=type_)
    make, offset = (pa.ListArray, np.int32) if pa.types.is_list(type_) else (pa.LargeListArray, np.int64)
    return make.from_arrays(pa.array(np.arange(batch.num_rows + 1, dtype=offset) * offset(width)), items, type=type_)


def _evaluated(expr: Expr, batch: pa.RecordBatch, type_: pa.DataType, time_zone: str) -> pa.Array:
    if isinstance(expr, Literal) and isinstance(expr.value, str):
        # A text constant is parsed as a date or time if the column is one, as in a comparison.
        constant, _ = align(expr.scalar(), pa.nulls(1, type_), time_zone)
        return pa.repeat(constant, batch.num_rows)
    return evaluate(expr, batch, time_zone=time_zone)


def _stored(values: pa.Array, type_: pa.DataType, time_zone: str) -> pa.Array:
    if values.type == type_:
        return values
    if pa.types.is_dictionary(type_):
        return _stored(values, type_.value_type, time_zone).dictionary_encode().cast(type_)
    families = family_of(values.type), _family_of_column(type_)
    if families[0] is Family.NULL:
        return pa.nulls(len(values), type_)
    if families in _EXACT:
        return values.cast(type_)
    if families not in _NEAREST:
        raise InvalidInputError(f"a value of type {values.type} does not go into a column of type {type_}; CAST it")
    if families == (Family.DECIMAL, Family.FLOAT):
        return values.cast(pa.float64()).cast(type_)
    if set(families) == {Family.TIMESTAMP, Family.TIMESTAMP_NTZ}:
        # In the unit of the values: a conversion to a coarser one is independent of zones, and must not round.
        zone = "UTC" if families[1] is Family.TIMESTAMP else None
        moved = casts.cast(values, pa.timestamp(values.type.unit, zone), is_try=True, time_zone=time_zone)
        return moved.cast(type_)
    converted = casts.cast(values, type_, is_try=True, time_zone=time_zone)
    if converted.null_count > values.null_count:
        failed = pc.and_(pc.is_null(converted), pc.is_valid(values))
        raise InvalidInputError(f"{values.filter(failed)[0]} is out of range of a column of type {type_}")
    return converted


def _family_of_column(type_: pa.DataType) -> Family | None:
    return Family.BINARY if pa.types.is_fixed_size_binary(type_) else family_of(type_)
