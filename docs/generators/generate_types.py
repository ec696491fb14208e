"""Writes the tables of `docs/reference/types.md` from the conversions of `lance_spark.spark.types.schemas`.

`python docs/generators/generate_types.py` writes; with `--check` it fails if the page is out of date.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pyarrow as pa
from generated_page import main
from pyspark.ml.linalg import MatrixUDT, VectorUDT
from pyspark.sql import types as st

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.schema.extension import EXTENSION_NAME, storage
from lance_spark.spark.types.schemas import to_spark_schema, written_schema

PAGE = Path(__file__).parents[1] / "reference" / "types.md"

_READ: tuple[tuple[pa.DataType, str], ...] = (
    (pa.null(), ""),
    (pa.bool_(), ""),
    (pa.int8(), ""),
    (pa.int16(), ""),
    (pa.int32(), ""),
    (pa.int64(), ""),
    (pa.uint8(), "the next signed type that holds all values"),
    (pa.uint16(), "the next signed type that holds all values"),
    (pa.uint32(), "the next signed type that holds all values"),
    (pa.uint64(), "the next signed type that holds all values"),
    (
        pa.float16(),
        "a number beyond 65504 is an error on write, others are rounded to the nearest half float",
    ),
    (pa.float32(), ""),
    (pa.float64(), ""),
    (pa.string(), ""),
    (pa.large_string(), ""),
    (pa.binary(), ""),
    (pa.large_binary(), ""),
    (pa.binary(16), ""),
    (pa.uuid(), "or STRING: see UUID below"),
    (pa.json_(), "or STRING: see JSON below"),
    (pa.decimal128(12, 2), "a negative scale: no Spark type, select other columns"),
    (pa.decimal256(38, 2), "precision above 38: no Spark type, select other columns"),
    (pa.date32(), ""),
    (pa.date64(), "milliseconds within a day are cut off on read"),
    (pa.timestamp("us", "UTC"), "any zone; nanoseconds are cut off on read (towards the past)"),
    (pa.timestamp("us"), "nanoseconds are cut off on read (towards the past)"),
    (pa.time32("ms"), "needs a Spark with the TIME type enabled"),
    (pa.time64("us"), "nanoseconds are cut off on read. Needs a Spark with the TIME type enabled"),
    (
        pa.duration("us"),
        "or the units that the column was created with; nanoseconds are cut off on read (towards the past)",
    ),
    (pa.list_(pa.int32()), ""),
    (pa.large_list(pa.int32()), "stays one on append and overwrite"),
    (pa.list_(pa.float32(), 8), "stays one on append and overwrite"),
    (pa.struct([("x", pa.int32())]), ""),
    (pa.map_(pa.string(), pa.int32()), ""),
    (
        pa.dictionary(pa.int8(), pa.string()),
        "stays a dictionary on append and overwrite; more distinct values in a batch than indices are an error",
    ),
)
"""Types of the format, and what is to be said of them."""

WRITTEN: tuple[st.DataType, ...] = (
    st.BooleanType(),
    st.ByteType(),
    st.ShortType(),
    st.IntegerType(),
    st.LongType(),
    st.FloatType(),
    st.DoubleType(),
    st.DecimalType(12, 2),
    st.StringType(),
    st.StringType("UTF8_LCASE"),
    st.CharType(5),
    st.VarcharType(5),
    st.BinaryType(),
    st.DateType(),
    st.TimestampType(),
    st.TimestampNTZType(),
    st.TimeType(),
    st.DayTimeIntervalType(),
    st.YearMonthIntervalType(),
    st.GeometryType(4326),
    st.GeographyType(4326),
    st.VariantType(),
    st.NullType(),
    st.ArrayType(st.IntegerType()),
    st.MapType(st.StringType(), st.IntegerType()),
    st.StructType().add("x", st.IntegerType()),
    VectorUDT(),
    MatrixUDT(),
)
"""Types of Spark that columns can have; others are in `REFUSED`."""

REFUSED: tuple[st.DataType, ...] = (st.CalendarIntervalType(),)


def read_types() -> str:
    """What Spark sees of each type of the format."""
    rows = []
    for dtype, note in _READ:
        stored, metadata = storage(pa.field("c", dtype))
        (field,) = to_spark_schema(pa.schema([pa.field("c", stored, metadata=metadata)])).fields
        shown = metadata.get(EXTENSION_NAME, str(dtype).encode()).decode()
        rows.append((shown, field.dataType.simpleString().upper().replace("<X:", "<x:"), note))
    lines = ["| Lance (Arrow) | Spark | note |", "|---|---|---|"]
    for (spark, note), alike in groupby(rows, key=lambda row: row[1:]):
        lines.append(f"| {', '.join(f'`{name}`' for name, *_ in alike)} | {spark} | {note} |")
    return "\n".join(lines)


def written_types() -> str:
    """The type and the metadata of the field that a new column gets."""
    lines = ["| Spark | Lance (Arrow) | metadata of the field |", "|---|---|---|"]
    for kind in WRITTEN:
        field = written_schema(st.StructType().add("c", kind)).field(0)
        notes = [f"`{key.decode()}`: `{value.decode()}`" for key, value in sorted((field.metadata or {}).items())]
        lines.append(f"| {_name(kind)} | `{field.type}` | {', '.join(notes)} |")
    return "\n".join(lines)


def _name(kind: st.DataType) -> str:
    if isinstance(kind, st.UserDefinedType):
        return f"`{type(kind).__name__}` of `pyspark.ml`"
    return kind.simpleString().upper().replace("<X:", "<x:")


def refused_types() -> str:
    """The sentence on the types that no column can have."""
    names = []
    for kind in REFUSED:
        try:
            written_schema(st.StructType().add("c", kind))
        except UnsupportedFeatureError:
            names.append(kind.simpleString().upper())
    return f"Refused: {', '.join(names)}."


def generated() -> str:
    """The generated part."""
    return "\n\n".join(
        [
            read_types(),
            "## New columns\nThe type that Spark's writers give to a new column:",
            written_types(),
            refused_types(),
        ]
    )


if __name__ == "__main__":
    raise SystemExit(main(PAGE, Path(__file__).name, generated()))
