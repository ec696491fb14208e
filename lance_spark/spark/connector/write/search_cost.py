"""Whether one process finds rows sooner than a job of Spark would start its tasks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lance_spark.expr.literals import Literal
from lance_spark.expr.nodes import Expr, quote_name, referenced_columns
from lance_spark.schema.projection import project
from lance_spark.spark.projected_sizes import ProjectedSizes
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.reading.blobs.blob_columns import with_blob_descriptors
from lance_spark.table.source import Split

CHEAP_BYTES = 256 << 20
"""So much is read by one process."""

CHEAP_SPLITS = 64
"""The most partitions that one process opens and searches."""

_UNKNOWN_BYTES = 16 << 20
"""Assumed of a file whose size the manifest does not have."""


def is_cheap_to_search(splits: Sequence[Split], filter: Expr) -> bool:
    """Whether one process searches `splits` for the rows of `filter`."""
    if len(splits) > CHEAP_SPLITS:
        return False
    return sum(bytes_to_match(split.manifest, filter) for split in splits) <= CHEAP_BYTES


def bytes_to_match(base: Manifest, filter: Expr) -> int:
    """About how many bytes have to be read to find the rows of `filter`."""
    if isinstance(filter, Literal):
        return 0
    sizes = sizes_to_match(base, filter).of(base.fragments.sizes)
    return int(np.where(np.isnan(sizes), _UNKNOWN_BYTES, sizes).sum())


def sizes_to_match(base: Manifest, filter: Expr) -> ProjectedSizes:
    """Estimator of the bytes that `filter` reads of each fragment."""
    schema = with_blob_descriptors(base.schema, data_format(base))
    known = schema.names()
    paths = [".".join(map(quote_name, path)) for path in referenced_columns(filter) if path[0] in known]
    return ProjectedSizes(schema, project(schema, paths))
