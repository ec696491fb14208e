"""Full-text search in a partitioned table."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lance_spark.expr.nodes import Expr
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.table.reading.system_columns import ROW_ADDRESS, ROW_ID, SYSTEM_FIELDS
from lance_spark.table.search.search_verbs import SearchVerbs
from lance_spark.table.search.text_filters import shared_analyses
from lance_spark.table.search.text_search import SearchedPart


class PartitionedSearchVerbs(PartitionedTable, SearchVerbs):
    """See `Dataset.search`. The statistics of scores are those of all partitions, whatever the filter."""

    def _searched_parts(
        self, columns: Sequence[str] | None, filter: str | Expr | None, with_row_id: bool, with_row_address: bool
    ) -> tuple[list[SearchedPart], pa.Schema]:
        shared = shared_analyses(self)
        kept = {partition.object_id for partition in self.partitions(filter)}
        parts = [
            SearchedPart(
                opened.manifest,
                self.plan(
                    opened,
                    columns,
                    self.searched_filter(opened, filter, shared),
                    with_row_id=with_row_id,
                    with_row_address=with_row_address,
                ),
                opened.key,
                opened.key in kept,
            )
            for opened in self.splits()
        ]
        schema = parts[0].scan.arrow_schema if parts else self._plan_of_nothing(columns, filter).arrow_schema
        asked = [name for name, is_on in ((ROW_ID, with_row_id), (ROW_ADDRESS, with_row_address)) if is_on]
        for name in asked:
            if name not in schema.names:
                schema = schema.append(SYSTEM_FIELDS[name])
        return parts, schema
