"""Key-grouped partitioning of the splits of a partitioned table, for Spark's planner."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lance_spark.expr.nodes import Expr
from lance_spark.partitioned.manifest_index import Partition
from lance_spark.partitioned.table import PartitionedTable, split_partitions
from lance_spark.spark.connector.scan.common_keys import CommonKey, common_keys
from lance_spark.table.source import Split, TableSource

NO_KEYS = "no partition field is a key of Spark's and has its columns in the scan"
SEVERAL_SPECS = "partitions of several specs have no key in common"
LIMITED = "the option limit counts rows in one task"


@dataclass(frozen=True, slots=True)
class Clustering:
    """Spark's use of partition keys: rows of equal keys need no shuffle to meet in one task.

    Attributes:
        keys: whether Spark uses them.
        some_keys: whether rows may be clustered by a part of the keys.
    """

    keys: bool = False
    some_keys: bool = False


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The keys of the partitions that a scan's own filter selects.

    Attributes:
        keys: those that all of them have and whose columns the scan returns.
        reason: why there are none, if there are none.
        object_ids: of the partitions.
    """

    keys: tuple[CommonKey, ...]
    reason: str
    object_ids: frozenset[str]

    @classmethod
    def of(cls, source: PartitionedTable, partitions: Sequence[Partition], columns: Sequence[str]) -> Partitioning:
        """The keys of `partitions`, of the columns that a scan returns."""
        specs = {partition.spec.id: partition.spec for partition in partitions}
        keys = common_keys(list(specs.values()), source.lance_schema, columns)
        return cls(
            tuple(keys),
            SEVERAL_SPECS if len(specs) > 1 else NO_KEYS,
            frozenset(partition.object_id for partition in partitions),
        )

    def without_keys(self, reason: str) -> Partitioning:
        """The same partitions, whose keys Spark does not see."""
        return replace(self, keys=(), reason=reason)

    def values(self, splits: Iterable[Split]) -> list[tuple[str | None, ...]]:
        """For each of `splits` the values of the keys, as text."""
        partitions = split_partitions(splits)
        columns = [key.values(partitions) for key in self.keys] if partitions else []
        return [tuple(column[place] for column in columns) for place in range(len(partitions))]

    def is_clustered_by(self, group_by: Sequence[str], clustering: Clustering) -> bool:
        """Whether Spark groups the rows without a shuffle. It would need one for the groups that tasks return, because
        these have no keys.
        """
        tops = [path[0] for key in self.keys for path in key.transform.columns]
        known = [name in group_by for name in tops]
        return clustering.keys and bool(known) and (any(known) if clustering.some_keys else all(known))

    def __str__(self) -> str:
        if not self.keys:
            return f"partitioning=none ({self.reason})"
        keys = ", ".join(f"{key.transform.name}({'.'.join(key.transform.columns[0])})" for key in self.keys)
        return f"partitioning=[{keys}]"


def partitioning_of(
    source: TableSource,
    splits: Sequence[Split],
    columns: Sequence[str],
    filter: Expr | None,
    *,
    is_narrowed: bool,
    time_zone: str,
) -> Partitioning | None:
    """The keys of a scan of `source`; None for a plain table.

    Args:
        splits: those that are read.
        filter: the scan's own; the keys are of all partitions that it selects.
        is_narrowed: whether a runtime filter has left out some of these.
    """
    if not isinstance(source, PartitionedTable):
        return None
    partitions = source.partitions(filter, time_zone=time_zone) if is_narrowed else split_partitions(splits)
    return Partitioning.of(source, partitions, columns)
