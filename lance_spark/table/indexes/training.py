"""Trains what all segments of an index have in common, from a sample of a version."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lance_spark.table.bases import Bases
from lance_spark.table.indexes.definition import IndexDefinition
from lance_spark.table.indexes.rows import index_scan, indexed_rows
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.take import Take

_SEED = 0


def trained(manifest: Manifest, bases: Bases, definition: IndexDefinition) -> IndexDefinition:
    """The definition with a model trained from rows of a version, so that segments built apart fit each other.

    It is `definition` itself for kinds of index that need no model.

    Raises:
        CorruptFileError: a file contradicts the format.
        NotFoundError: a file does not exist any more.
        StorageError: the store failed.
    """
    scan = index_scan(manifest, bases, definition)
    num_rows = sum(scan.counts(manifest.fragments))
    wanted = definition.builder.sample_rows(num_rows)
    if not wanted:
        return definition
    # Some rows more than asked for: those without a vector are no use.
    places = np.random.default_rng(_SEED).choice(num_rows, min(num_rows, wanted + wanted // 4 + 16), replace=False)
    sample = Take(scan, [(scan, manifest.fragments)]).rows(np.sort(places).tolist())
    rows = indexed_rows(sample.to_batches(), manifest, definition)
    return replace(definition, builder=definition.builder.trained(rows, num_rows))
