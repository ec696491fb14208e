"""Ids for new fields (Lance table format specification, "Field IDs").

An id must not be assigned twice: another writer may be about to append a file with values of the dropped column that
had it. A manifest remembers which ids were assigned only if the table asks for it (flag NON_REUSABLE_FIELD_IDS), so the
versions before are looked at too.
"""

from __future__ import annotations

from lance_spark.errors import NotFoundError, UnsupportedFeatureError
from lance_spark.table.manifests.history import History
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base import OperationKind
from lance_spark.table.operations.manifest_builder import writer_version

MAX_FIELD_ID = 2**31 - 1

LOOK_BACK = 64
"""How many versions are searched: a writer further behind has read a version that is probably cleaned up."""


def next_field_id(history: History, base: Manifest) -> int:
    """An id that no field of `base`, of its data files, or of the versions shortly before it has; nor any after it.

    Raises:
        UnsupportedFeatureError: all ids of 32 bits have been assigned.
    """
    first_free = _id_after_all(history, base)
    if first_free > MAX_FIELD_ID:
        raise UnsupportedFeatureError(
            "the table has no field ids left for a new column; write its rows to a new table",
            feature="field ids beyond 31 bits",
        )
    return first_free


def _id_after_all(history: History, base: Manifest) -> int:
    largest = largest_field_id(base)
    if base.max_allocated_field_id is not None:
        return largest + 1
    for version in range(base.version, max(0, base.version - LOOK_BACK), -1):
        try:
            file = history.load(version)
        except NotFoundError:
            break  # Cleaned up, and what came before it too.
        largest = max(largest, file.manifest.schema.max_field_id)
        transaction = history.transaction(file)
        writer = file.manifest.writer_version
        own = writer is not None and writer.library == writer_version().library
        if own and transaction is not None and transaction.operation.kind is OperationKind.MERGE:
            break  # Whoever added columns here has looked back too.
    return largest + 1


def largest_field_id(manifest: Manifest) -> int:
    """The largest id of a field in the schema, in a data file, or ever assigned, as far as the manifest knows."""
    in_files = (
        field_id for message in manifest.fragments.messages for file in message.files for field_id in file.fields
    )
    allocated = manifest.max_allocated_field_id
    return max(manifest.schema.max_field_id, max(in_files, default=-1), -1 if allocated is None else allocated)
