"""Helpers of index procedures: the table, the names of its indexes, and grouping of fragments into segments."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise

from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.spark.connector.procedures.procedure_types import TEXT, Parameter
from lance_spark.table.dataset import Dataset
from lance_spark.table.manifests.manifest import Manifest

SEGMENT_ROWS = 8 << 20
"""About this many rows a segment covers, if the user does not say how many segments there are."""

INDEX_NAME = Parameter("name", TEXT, "name of the index", required=True)


def index_names(table: Dataset | PartitionedDataset) -> set[str]:
    """The names of the table's indexes."""
    return set(table.index_columns())


def segment_groups(
    manifest: Manifest, fragment_ids: Collection[int] | None, num_segments: int | None = None
) -> list[tuple[int, ...]]:
    """Fragments in groups of about equal numbers, one for each segment.

    Args:
        fragment_ids: those to divide; None for all.
        num_segments: how many groups; None for one for each `SEGMENT_ROWS` rows.
    """
    wanted = None if fragment_ids is None else set(fragment_ids)
    messages = [item for item in manifest.fragments.messages if wanted is None or item.id in wanted]
    if num_segments is None:
        num_segments = max(1, -(-sum(message.physical_rows for message in messages) // SEGMENT_ROWS))
    count = min(num_segments, len(messages))
    bounds = [len(messages) * number // count for number in range(count + 1)] if count else [0]
    return [tuple(item.id for item in messages[start:stop]) for start, stop in pairwise(bounds)]
