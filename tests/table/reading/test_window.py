"""How many rows are decoded at a time."""

from __future__ import annotations

import pyarrow as pa

from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.schema.field import Field
from lance_spark.table.reading.window import Window

MIB = 1 << 20


def fields(*types: pa.DataType) -> list[Field]:
    return list(from_arrow_schema(pa.schema([(f"c{i}", dtype) for i, dtype in enumerate(types)])).fields)


def test_the_width_of_fixed_types_is_known() -> None:
    dtype = pa.struct(
        [("a", pa.int64()), ("b", pa.list_(pa.float32(), 6)), ("c", pa.binary(8)), ("d", pa.decimal128(9, 2))]
    )
    (field,) = fields(dtype)
    assert Window(56 * 8192 * 4, 8192, [(field, 0.01)]).num_rows == 8192 * 4
    assert Window(MIB, 8192, [(fields(pa.bool_())[0], 0.0)]).num_rows == MIB


def test_texts_that_look_tiny_begin_carefully_and_grow_by_what_they_were() -> None:
    window = Window(64 * MIB, 8192, [(fields(pa.string())[0], 0.01)])
    assert window.num_rows == 16384
    window.adapt(16384, 16384 * 4000)
    assert window.num_rows == 16777 - 16777 % 8192
    window.adapt(16384, 16384 * 10)
    assert window.num_rows == 16777 * 8 - 16777 * 8 % 8192


def test_there_is_always_a_row() -> None:
    window = Window(1, 8192, [(fields(pa.list_(pa.float32(), 4096))[0], 16384.0)])
    assert window.num_rows == 1
    window.adapt(1, 1 << 30)
    assert window.num_rows == 1
    assert Window(MIB, 8192, []).num_rows > 0
