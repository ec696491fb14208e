"""Writes rows into new fragments.

Each new fragment has one data file. Files are invisible until a commit references them, so any number of tasks can
write them; `DataFragment.to_bytes` sends the result to the process that commits.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle

import pyarrow as pa

from lance_spark.errors import LanceError
from lance_spark.file.blob_writer import BlobSource, copied_bytes
from lance_spark.file.writer import FileWriter, WrittenFile
from lance_spark.file_version import FileVersion
from lance_spark.schema.blob import blob_columns
from lance_spark.schema.field import LanceSchema
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.deletion import delete_quietly
from lance_spark.table.bases import DataTarget
from lance_spark.table.paths import DATA, is_of_job, new_data_file_name
from lance_spark.table.rows.fragment import DataFile, DataFragment, FragmentId
from lance_spark.table.writing.file_limits import FileLimits

_LOG = logging.getLogger(__name__)

# A batch is written in slices, so that the size limit is checked often enough.
_PIECE_BYTES = 32 << 20


class FragmentWriter:
    """Writes rows into as many new fragments as the limits require.

    Use it as a context manager: an error inside removes everything that was written.

    Args:
        store: the table's root.
        schema: the columns to write, with the table's field ids.
        file_version: version of the data files.
        job: the write job of this writer (`paths.new_job`).
        targets: base paths that get the data files in turn; none for the table's root.
        blob_source: finds the data files of blobs that are copied from other files.
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: LanceSchema,
        *,
        file_version: FileVersion = FileVersion.V2_2,
        limits: FileLimits | None = None,
        job: str | None = None,
        targets: Sequence[DataTarget] = (),
        blob_source: BlobSource | None = None,
    ) -> None:
        self._blob_source = blob_source
        self._blob_columns = blob_columns(schema.fields)
        self._targets = cycle(targets or (DataTarget(store, f"{DATA}/"),))
        self._target = next(self._targets)
        self._published: list[tuple[ObjectStore, str]] = []
        self._job = job
        self._schema = schema
        self._file_version = file_version
        self._limits = limits or FileLimits()
        self._writer: FileWriter | None = None
        self._path = ""
        self._fragments: list[DataFragment] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Appends rows.

        Raises:
            InvalidInputError: the batch does not match the schema.
        """
        start = 0
        num_bytes = batch.nbytes + copied_bytes(batch, self._blob_columns)
        piece_rows = max(1, batch.num_rows * _PIECE_BYTES // max(num_bytes, 1))
        while start < batch.num_rows:
            writer = self._writer or self._open()
            length = min(piece_rows, self._limits.max_rows - writer.num_rows, batch.num_rows - start)
            writer.write(batch.slice(start, length))
            start += length
            if writer.num_rows >= self._limits.max_rows or writer.tell() >= self._limits.max_bytes:
                self._finish()

    def close(self) -> list[DataFragment]:
        """Finishes the last file; returns the new fragments in row order, without ids."""
        self._finish()
        return list(self._fragments)

    def abort(self) -> None:
        """Removes everything that was written."""
        if self._writer is not None:
            self._writer.abort()
            # Publishing may have reported a failure after it succeeded.
            delete_quietly(self._target.store, self._path)
            self._writer = None
        for store, path in self._published:
            delete_data_file(store, path)
        self._fragments, self._published = [], []

    def __enter__(self) -> FragmentWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        if kind is not None:
            self.abort()

    def _open(self) -> FileWriter:
        self._path = f"{self._target.folder}{new_data_file_name(self._job)}"
        self._writer = FileWriter(
            self._target.store,
            self._path,
            self._schema,
            version=self._file_version,
            blob_source=self._blob_source,
        )
        return self._writer

    def _finish(self) -> None:
        if self._writer is not None:
            self._fragments.append(_fragment(self._writer.close(), self._target))
            self._published.append((self._target.store, self._path))
            self._writer = None
            self._target = next(self._targets)


def write_fragments(
    batches: Iterable[pa.RecordBatch],
    store: ObjectStore,
    schema: LanceSchema,
    *,
    file_version: FileVersion = FileVersion.V2_2,
    limits: FileLimits | None = None,
) -> list[DataFragment]:
    """New fragments with the rows of `batches`, not yet part of the table. On an error no files are left.

    Args:
        batches: rows in the columns of `schema`.
        store: the table's root.
        schema: the columns to write, with the table's field ids.
        file_version: version of the data files.

    Raises:
        InvalidInputError: a batch does not match the schema.
        UnsupportedFeatureError: files of this version do not support the schema.
        StorageError: the store failed.
    """
    with FragmentWriter(store, schema, file_version=file_version, limits=limits) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.close()


def num_rows_of(batch: pa.RecordBatch) -> int:
    """The number of its rows."""
    return int(batch.num_rows)


def remove_fragments(store: ObjectStore, fragments: Iterable[DataFragment]) -> None:
    """Removes the data files of fragments that no version references; a clean-up finds those that cannot be removed.

    Files in other base paths stay.
    """
    for path in _paths(fragments):
        delete_data_file(store, path)


def delete_data_file(store: ObjectStore, path: str) -> None:
    """Removes a data file that no version references, then its sidecars; a clean-up finds what cannot be removed."""
    delete_quietly(store, path)
    try:
        sidecars = [entry.path for entry in store.list(path.removesuffix(".lance"))]
    except LanceError:
        return
    for sidecar in sidecars:
        delete_quietly(store, sidecar)


def remove_job_files(store: ObjectStore, job: str, keep: Iterable[DataFile] = ()) -> None:
    """Removes the data files written for `job` except those of `keep`: the orphan files of killed tasks.

    A store that fails leaves them to a clean-up of the table: its error would hide the result of the job.
    """
    kept = {f"{DATA}/{file.path}" for file in keep if file.base_id is None}
    try:
        entries = list(store.list(DATA, recursive=True))
    except LanceError as error:
        _LOG.warning("files of the write job %s may be left for VACUUM: %s", job, error)
        return
    for entry in entries:
        folder, _, name = entry.path.removeprefix(f"{DATA}/").rpartition("/")
        # Sidecars of blobs lie in a folder that is called like their data file.
        owner = f"{DATA}/{folder or name.removesuffix('.lance')}.lance"
        if is_of_job(owner, job) and owner not in kept:
            delete_quietly(store, entry.path)


def _paths(fragments: Iterable[DataFragment]) -> Iterator[str]:
    return (f"{DATA}/{file.path}" for fragment in fragments for file in fragment.files if file.base_id is None)


def _fragment(written: WrittenFile, target: DataTarget) -> DataFragment:
    file = DataFile(
        path=written.path.removeprefix(target.folder),
        fields=written.field_ids,
        column_indices=written.column_indices,
        version=written.version,
        size_bytes=written.size_bytes,
        base_id=target.base_id,
    )
    return DataFragment(id=FragmentId(0), files=(file,), physical_rows=written.num_rows)
