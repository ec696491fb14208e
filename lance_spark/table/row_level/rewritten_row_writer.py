"""Writing rows into new fragments, and remembering where each of them was."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.file.blob_writer import BlobSource
from lance_spark.file_version import FileVersion
from lance_spark.schema.field import LanceSchema
from lance_spark.storage.base import ObjectStore
from lance_spark.table.row_level.rewritten_rows import NO_ORIGIN, NewFragment
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.writing.write import FileLimits, FragmentWriter, remove_fragments


class MovedRowWriter:
    """A `FragmentWriter` whose fragments have the source addresses of their rows. Also a context manager.

    Args:
        store: the table's root.
        schema: all columns of the table.
        file_version: version of the data files.
        job: the write job that this is a part of (`paths.new_job`).
        blob_source: finds the data files of blobs that are copied from other files.
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: LanceSchema,
        *,
        file_version: FileVersion,
        limits: FileLimits | None = None,
        job: str | None = None,
        blob_source: BlobSource | None = None,
    ) -> None:
        self._writer = FragmentWriter(
            store, schema, file_version=file_version, limits=limits, job=job, blob_source=blob_source
        )
        self._source_addresses: list[UInt64Array] = []

    def write(self, batch: pa.RecordBatch, source_addresses: UInt64Array | None = None) -> None:
        """Appends rows.

        Args:
            origins: uint64[batch.num_rows]: the address that each row had in the version that was read, `NO_ORIGIN` for
                a new row; None if all rows are new.

        Raises:
            InvalidInputError: the batch does not fit the schema, or not its origins.
        """
        if source_addresses is None:
            source_addresses = np.full(batch.num_rows, NO_ORIGIN, np.uint64)
        if len(source_addresses) != batch.num_rows:
            raise InvalidInputError(f"{batch.num_rows} rows come with the addresses of {len(source_addresses)}")
        self._writer.write(batch)
        self._source_addresses.append(source_addresses)

    def close(self) -> list[NewFragment]:
        """Finishes the last file; the new fragments in row order."""
        fragments = self._writer.close()
        source_addresses = np.concatenate([np.empty(0, np.uint64), *self._source_addresses])
        ends = np.cumsum(np.array([fragment.physical_rows for fragment in fragments], np.int64))
        parts = np.split(source_addresses, ends[:-1])
        return [NewFragment(fragment, part) for fragment, part in zip(fragments, parts, strict=False)]

    def abort(self) -> None:
        """Removes everything that was written."""
        self._writer.abort()

    def __enter__(self) -> MovedRowWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        self._writer.__exit__(kind, error, traceback)


def remove_new(store: ObjectStore, new: Sequence[NewFragment]) -> None:
    """Removes the files of `new`, which no version has."""
    remove_fragments(store, [item.fragment for item in new])
