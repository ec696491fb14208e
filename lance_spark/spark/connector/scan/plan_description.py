"""Description of a scan for EXPLAIN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql.types import StructType

from lance_spark.expr.nodes import Expr
from lance_spark.spark.connector.scan.aggregates import Aggregation
from lance_spark.spark.connector.scan.partitioning import Partitioning
from lance_spark.spark.connector.scan.selection import SelectedFragments
from lance_spark.spark.connector.scan.top_n import TopN
from lance_spark.table.source import Split


@dataclass(frozen=True, slots=True)
class ScanCounts:
    """Numbers of splits, fragments and files that a scan reads, and of those that it skips.

    Attributes:
        splits, total_splits: read, and all of the table.
        fragments, total_fragments: read, and all of the splits that are read.
        files: of the fragments that are read.
    """

    splits: int
    total_splits: int
    fragments: int
    total_fragments: int
    files: int

    @classmethod
    def of(cls, selected: Sequence[SelectedFragments], splits: Sequence[Split], total_splits: int) -> ScanCounts:
        """The counts of the fragments `selected` from `splits`."""
        total_fragments = sum(len(split.manifest.fragments) for split in splits)
        fragments, files = sum(map(len, selected)), sum(item.num_files for item in selected)
        return cls(len(splits), total_splits, fragments, total_fragments, files)

    def metrics(self, *, is_partitioned: bool) -> dict[str, int]:
        """The counts by the names that Spark's UI shows."""
        partitions = {"partitions_read": self.splits, "partitions_pruned": self.total_splits - self.splits}
        return (partitions if is_partitioned else {}) | {
            "fragments_read": self.fragments,
            "fragments_pruned": self.total_fragments - self.fragments,
            "files_read": self.files,
        }


def plan_description(
    table: str,
    columns: StructType,
    filter: Expr | None,
    limit: int | None,
    top_n: TopN | None,
    aggregation: Aggregation | None,
    counts: ScanCounts,
    size_bytes: int | None,
    partitioning: Partitioning | None,
    indexes: str | None = None,
    search: str | None = None,
) -> str:
    """One line on a scan of `table`, its name and version; `indexes` says which of them have answered, `search`
    how the nearest rows are found."""
    parts = [
        f"lance {table}",
        f"columns=[{', '.join(_column_names(columns))}]",
        f"filters=[{'' if filter is None else filter}]",
        *([] if indexes is None else [f"indexes=[{indexes}]"]),
        *([] if limit is None else [f"limit={limit}"]),
        *([] if top_n is None else [f"top={top_n.limit}"]),
        *([] if search is None else [search]),
        *([] if aggregation is None else [str(aggregation)]),
        *([] if partitioning is None else [f"partitions={counts.splits}/{counts.total_splits}"]),
        f"fragments={counts.fragments}/{counts.total_fragments}",
        f"files={counts.files}",
        f"bytes={'unknown' if size_bytes is None else size_bytes}",
        *([] if partitioning is None or aggregation is not None else [str(partitioning)]),
    ]
    return " ".join(parts)


def _column_names(columns: StructType) -> list[str]:
    """The columns as EXPLAIN shows them: of a struct that is read in part, its fields."""
    return [
        f"{field.name}<{', '.join(_column_names(field.dataType))}>"
        if isinstance(field.dataType, StructType)
        else field.name
        for field in columns.fields
    ]
