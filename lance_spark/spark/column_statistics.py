"""Statistics of columns for Spark's optimizer, as properties of the table: one for each analyzed column.

A value is a JSON object with the fields of `Entry`; its `stats` are the map that Spark's `CatalogColumnStat` reads.
They are estimates: no answer of a query depends on them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

PREFIX = "lance-spark.statistics."
"""The name of a property is this and the name of the column."""

MIN, MAX, HISTOGRAM = "min", "max", "histogram"
DISTINCT, NULLS = "distinctCount", "nullCount"

_KINDS = (BinaryType, BooleanType, DateType, NumericType, StringType, TimestampType, TimestampNTZType)


def can_be_analyzed(kind: DataType) -> bool:
    """Whether Spark has statistics for columns of this type."""
    return isinstance(kind, _KINDS)


@dataclass(frozen=True, slots=True)
class Entry:
    """Statistics of a column, as its property stores them.

    Attributes:
        type: of the column when it was analyzed, as Spark's JSON.
        rows: how many rows the table had then.
        data: the digest of the table then.
        stats: the keys and values of Spark's `CatalogColumnStat`.
    """

    type: str
    rows: int
    data: str
    stats: Mapping[str, str]

    def to_text(self) -> str:
        """The value of the property."""
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)


def entry_of(properties: Mapping[str, str], name: str, kind: DataType, data: str) -> Entry | None:
    """The statistics of a column; None if it has none, or had another type when it was analyzed.

    Bounds and histograms are left out unless the table's data is what was analyzed: a filter beyond bounds that are too
    narrow would look as if it kept no row.

    Args:
        data: the digest of the table.
    """
    text = properties.get(PREFIX + name)
    found = None if text is None else _parsed(text)
    if found is None or found.type != kind.json():
        return None
    if found.data == data:
        return found
    kept = {key: value for key, value in found.stats.items() if key not in (MIN, MAX, HISTOGRAM)}
    return replace(found, stats=kept)


def has_statistics(properties: Mapping[str, str]) -> bool:
    """Whether any column of a table with these properties was analyzed."""
    return any(name.startswith(PREFIX) for name in properties)


def without_statistics(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that users have set."""
    return {name: value for name, value in properties.items() if not name.startswith(PREFIX)}


def _parsed(text: str) -> Entry | None:
    """None for a value of another form: anybody can set properties, and without statistics queries are right too."""
    try:
        found = json.loads(text)
        stats = {str(key): str(value) for key, value in found["stats"].items()}
        return Entry(str(found["type"]), int(found["rows"]), str(found["data"]), stats)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
