"""Computes statistics of columns for Spark's optimizer; ANALYZE TABLE calls it."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.types import LongType, StringType

from lance_spark.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.schema.projection import quoted
from lance_spark.spark.column_statistics import (
    DISTINCT,
    HISTOGRAM,
    MAX,
    MIN,
    NULLS,
    PREFIX,
    Entry,
    can_be_analyzed,
)
from lance_spark.spark.connector.procedures.procedure_types import (
    TABLE,
    TEXTS,
    ColumnStatisticsQuery,
    Invocation,
    Parameter,
    Procedure,
)
from lance_spark.spark.connector.scan.local_rows import LocalRows, row_type
from lance_spark.spark.types.schemas import to_spark_schema
from lance_spark.table.dataset import Dataset

_ANALYZED = row_type(
    column=StringType(), distinct_count=LongType(), null_count=LongType(), min=StringType(), max=StringType()
)


@dataclass(frozen=True)
class _AnalyzedVersion:
    """The analyzed version, its data digest, and Spark's types of the analyzed columns as JSON."""

    table: Dataset | PartitionedDataset
    data: str
    types: Mapping[str, str]


def _analyze(call: Invocation) -> LocalRows | ColumnStatisticsQuery:
    table = call.table()
    known = {item.name: item.dataType for item in to_spark_schema(table.stored_schema).fields}
    if call.arguments.values.get("columns") is None:
        names = [name for name, kind in known.items() if can_be_analyzed(kind)]
    else:
        names = [call.spelled_as_in(table, name) for name in call.arguments.texts("columns")]
    for name in names:
        if name not in known:
            raise NotFoundError(f"there is no column {name!r} in {call.arguments.required('table')}")
        if not can_be_analyzed(known[name]):
            raise UnsupportedFeatureError(
                f"Spark keeps no statistics of columns like {name!r}, of type {known[name].simpleString()}",
                feature="ANALYZE of this type",
            )
    if len(set(names)) < len(names):
        raise InvalidInputError(f"a column is named twice: {', '.join(names)}")
    if not names:
        return LocalRows.of(_ANALYZED, [])
    source = quoted((call.catalog.name, *call.identifier()))
    text = f"SELECT {', '.join(quoted((name,)) for name in names)} FROM {source} VERSION AS OF {table.version}"
    state = _AnalyzedVersion(table, table.data_digest, {name: known[name].json() for name in names})
    return ColumnStatisticsQuery(text, pickle.dumps(state))


def _commit(state: bytes, results: Sequence[bytes]) -> LocalRows:
    planned: _AnalyzedVersion = pickle.loads(state)  # Pickled by this package, on this driver.
    found = json.loads(results[0])
    columns = {name: _usable(found["columns"][name]) for name in planned.types}
    dropped = [
        name
        for name in planned.table.properties
        if name.startswith(PREFIX) and name.removeprefix(PREFIX) not in planned.table.stored_schema.names
    ]
    entries: dict[str, str | None] = dict.fromkeys(dropped)
    for name, stats in columns.items():
        entries[PREFIX + name] = Entry(planned.types[name], int(found["rows"]), planned.data, stats).to_text()
    planned.table.update_config(entries)
    rows = [
        (name, stats.get(DISTINCT), stats.get(NULLS), stats.get(MIN), stats.get(MAX)) for name, stats in columns.items()
    ]
    return LocalRows.of(_ANALYZED, rows)


def _usable(stats: Mapping[str, str]) -> dict[str, str]:
    """Without bounds where one is NaN or infinite: Spark's estimates compute with them."""
    if all(_is_finite(stats.get(key)) for key in (MIN, MAX)):
        return dict(stats)
    return {key: value for key, value in stats.items() if key not in (MIN, MAX, HISTOGRAM)}


def _is_finite(text: str | None) -> bool:
    try:
        return text is None or math.isfinite(float(text))
    except ValueError:
        return True  # A date or a time.


PROCEDURES = (
    Procedure(
        "analyze",
        "Computes statistics of columns, as a job over the cluster, and keeps them for Spark's cost-based optimizer.",
        (TABLE, Parameter("columns", TEXTS, "names of columns; all whose types have statistics if it is left out")),
        _analyze,
        finish=_commit,
        changes_table=True,
    ),
)
