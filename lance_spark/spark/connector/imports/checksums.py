"""Sums over the rows of a table that do not depend on their order, computed by Spark.

The sum of a column is that of the hashes of its values, with markers for nulls at each level, because the hash of a
null is that of nothing. Spark's hash takes 0.0 and -0.0 for equal, so the sign of floats is hashed too. The sum of rows
is that of the hashes of these, so that values which change their rows are noticed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructType,
    VariantType,
)

from lance_spark.schema.projection import quoted


@dataclass(frozen=True, slots=True)
class Checksum:
    """The number of rows, the sum of each column, and that of rows."""

    rows: int
    columns: tuple[str, ...]
    of_rows: str

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Checksum:
        """The answer to one part of the query."""
        return cls(int(texts[0]), tuple(texts[1:-1]), texts[-1])

    def difference(self, copy: Checksum, names: Sequence[str]) -> str | None:
        """The difference of a copy in words; None if there is none."""
        if self.rows != copy.rows:
            return f"the source has {self.rows} rows and the copy {copy.rows}"
        differing = [
            repr(name) for name, one, other in zip(names, self.columns, copy.columns, strict=True) if one != other
        ]
        if differing:
            return f"column {differing[0]} differs" if len(differing) == 1 else f"columns {', '.join(differing)} differ"
        return None if self.of_rows == copy.of_rows else "values are in other rows"


def query(columns: StructType, table: str) -> str:
    """The query for the checksum of the columns of `table`, a name in SQL with its version, as one row of texts."""
    hashes = [f"xxhash64({', '.join(_parts(quoted([field.name]), field.dataType))})" for field in columns.fields]
    names = [f"h{index}" for index in range(len(hashes))]
    inner = ", ".join(f"{value} AS {name}" for value, name in zip(hashes, names, strict=True))
    sums = ", ".join(map(_sum, [*names, f"xxhash64({', '.join(names)})"]))
    return f"SELECT CAST(count(*) AS STRING), {sums} FROM (SELECT {inner} FROM {table})"


def _sum(value: str) -> str:
    return f"CAST(coalesce(sum(CAST({value} AS DECIMAL(20, 0))), 0) AS STRING)"


def _parts(value: str, kind: DataType, depth: int = 0) -> list[str]:
    """The expressions whose hash is that of a value."""
    is_null = f"{value} IS NULL"
    if isinstance(kind, (FloatType, DoubleType)):
        return [is_null, value, f"atan2(CAST({value} AS DOUBLE), -1D) < 0D"]
    if isinstance(kind, StringType) and not kind.isUTF8BinaryCollation():
        return [is_null, f"CAST({value} AS BINARY)"]
    if isinstance(kind, VariantType):
        return [is_null, f"to_json({value})", f"schema_of_variant({value})"]
    if isinstance(kind, StructType):
        fields = (_parts(f"{value}.{quoted([item.name])}", item.dataType, depth) for item in kind.fields)
        return [is_null, *(part for parts in fields for part in parts)]
    if isinstance(kind, MapType):
        entry = StructType().add("key", kind.keyType).add("value", kind.valueType)
        return [is_null, *_parts(f"map_entries({value})", ArrayType(entry), depth)]
    if isinstance(kind, ArrayType):
        item = f"item{depth}"
        parts = ", ".join(_parts(item, kind.elementType, depth + 1))
        return [is_null, f"coalesce(size({value}), -1)", f"transform({value}, {item} -> struct({parts}))"]
    return [is_null, value]
