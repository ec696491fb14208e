"""ORDER BY `lance_distance` with LIMIT by a vector index, for users who allow approximate answers.

The index chooses rows. Tasks order these rows by the exact distance, as they order all rows where no index is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa

from lance_spark.expr.columns import resolve_names
from lance_spark.expr.nodes import And, Column, Expr, InArray, IsNull, Not, quote_name
from lance_spark.index.vector.sql_distance import SqlDistance
from lance_spark.schema.projection import project
from lance_spark.spark.connector.scan.selection import SplitScan
from lance_spark.spark.predicates import type_at
from lance_spark.table.reading.first_rows import SortKey
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.system_columns import ROW_ADDRESS
from lance_spark.table.vector_search.query import VectorColumn, VectorQuery
from lance_spark.table.vector_search.search import Part, Search
from lance_spark.table.vector_search.segments import chosen_segments


@dataclass(frozen=True)
class DistanceSearch:
    """Plan of a scan for the rows that are nearest to a query.

    Attributes:
        splits: the splits of the scan, whose filters keep the rows that an index has chosen.
        described: what was searched, for plans.
        metrics: by their names in Spark's UI.
    """

    splits: Sequence[SplitScan]
    described: str
    metrics: Mapping[str, int] = field(default_factory=dict)


def search_of(
    keys: Sequence[SortKey],
    limit: int,
    splits: Sequence[SplitScan],
    schema: pa.Schema,
    *,
    is_approximate: bool,
    use_scalar_index: bool,
) -> DistanceSearch | None:
    """The search that finds the first `limit` rows in the order of `keys`; None if no key is a distance.

    It is exact, unless the user allows approximate answers and there is an index that can give one: for a single
    ascending key, where rows without a vector cannot be among the first rows, and if it finds `limit` rows.

    Args:
        schema: what filters may name.
    """
    distance = next((key for key in keys if key.distance is not None), None)
    if distance is None or distance.distance is None:
        return None
    described = f"search={distance.distance.described('.'.join(distance.path))}"
    exact = DistanceSearch(splits, f"{described} exact")
    if not is_approximate or len(keys) > 1 or distance.descending or limit < 1:
        return exact
    if any(_can_start_with_nulls(distance, item.scan.filter, schema) for item in splits):
        return exact
    found = _indexed(distance, distance.distance, limit, splits, schema, use_scalar_index)
    return exact if found is None else replace(found, described=f"{described} {found.described}")


def _can_start_with_nulls(key: SortKey, condition: Expr | None, schema: pa.Schema) -> bool:
    terms = condition.terms if isinstance(condition, And) else (condition,)
    is_filled = any(
        isinstance(term, Not)
        and isinstance(term.value, IsNull)
        and isinstance(term.value.value, Column)
        and tuple(resolve_names(schema, term.value.value.path)) == tuple(key.path)
        for term in terms
    )
    is_required = len(key.path) == 1 and not schema.field(key.path[0]).nullable
    return key.nulls_first and not is_filled and not is_required


def _indexed(
    key: SortKey,
    distance: SqlDistance,
    limit: int,
    splits: Sequence[SplitScan],
    schema: pa.Schema,
    use_scalar_index: bool,
) -> DistanceSearch | None:
    """The rows that indexes have chosen; None if no index takes part, or too few rows are found."""
    column = VectorColumn.of(".".join(map(quote_name, key.path)), type_at(schema, key.path))
    query = VectorQuery.of(column, list(distance.query), k=limit, metric=distance.metric.value)
    parts = [Part(item.split.manifest, partial(_scan_of_vectors, item.scan, key)) for item in splits]
    if not any(chosen_segments(part.scan(None, None), part.manifest, query, use_index=True) for part in parts):
        return None
    search = Search(query, use_scalar_index=use_scalar_index)
    hits = [found for (found,) in search.nearest_of_parts(parts)]
    if sum(len(found.addresses) for found in hits) < limit:
        return None
    rows = [InArray(Column((ROW_ADDRESS,)), pa.array(found.addresses)) for found in hits]
    narrowed = [
        SplitScan(item.split, replace(item.scan, filter=chosen)) for item, chosen in zip(splits, rows, strict=True)
    ]
    probed = search.index.probed
    return DistanceSearch(narrowed, str(probed), probed.metrics())


def _scan_of_vectors(scan: Scan, key: SortKey, _columns: Any, _filter: Any) -> Scan:
    return scan.returning(project(scan.schema, [key.path]), (key.path[0],))
