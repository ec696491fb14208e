"""`verify`: reads everything of a version and reports what contradicts it. Changes nothing.

The format has no checksums: a value that was changed to another one that decodes is not found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyroaring

from lance_spark.cli.opening import CommandTarget
from lance_spark.cli.output import escaped
from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import LanceError
from lance_spark.file.data_file_reader import DataFileReader
from lance_spark.file.open_file import open_data_file
from lance_spark.layouts.base import RowRanges
from lance_spark.schema.columns import is_blob
from lance_spark.schema.field import LINEAGE_FIELD_IDS, Field, FieldId, LanceSchema
from lance_spark.storage.base import ObjectStore
from lance_spark.table.bases import Bases
from lance_spark.table.dataset import Dataset
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.rows.fragment import BaseId, DataFile, DataFragment
from lance_spark.table.rows.row_ids import RowIdSequence
from lance_spark.table.rows.row_versions import RowDatasetVersionSequence

_WINDOW_ROWS = 1 << 16
_RESTORE = "bring the file back from a copy, or restore a version that does not need it"
_REWRITE = "restore an older version, or write the table again from its source"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: what, where, and what to do."""

    what: str
    where: str
    advice: str

    def line(self) -> str:
        """One line of text, unprintable characters escaped."""
        return escaped(f"{self.where}: {self.what}; {self.advice}")

    def document(self) -> dict[str, str]:
        return {"what": self.what, "where": self.where, "advice": self.advice}


def verify_target(target: CommandTarget, progress: Callable[[str], None]) -> Iterator[Finding]:
    """Findings for a version; of a partitioned table, `__manifest` and all partitions are verified."""
    yield from _Verifier(target.dataset, progress).findings()
    if target.partitioned is None:
        return
    for partition in target.partitioned.partitions():
        try:
            opened = target.partitioned.open(partition)
        except LanceError as error:
            yield Finding(str(error), f"partition {partition.location}", _RESTORE)
        else:
            for finding in _Verifier(Dataset(opened.table, opened.manifest), progress).findings():
                yield Finding(finding.what, f"partition {partition.location}, {finding.where}", finding.advice)


class _Verifier:
    """The checks of one version of a plain table."""

    def __init__(self, dataset: Dataset, progress: Callable[[str], None]) -> None:
        self._dataset = dataset
        self._progress = progress
        self._bases: Bases = dataset.location.bases(dataset.manifest)
        self._row_ids: list[Int64Array] = []

    def findings(self) -> Iterator[Finding]:
        yield from self._schema()
        fragments = self._dataset.fragments
        yield from _duplicates([message.id for message in fragments.messages], "fragment id", "manifest")
        for position in range(len(fragments)):
            self._progress(f"fragment {position + 1} of {len(fragments)}")
            try:
                fragment = fragments[position]
            except LanceError as error:
                yield Finding(str(error), f"fragment {fragments.messages[position].id}", _REWRITE)
            else:
                yield from self._fragment(fragment)
        yield from self._unique_row_ids()
        yield from self._indexes()

    def _schema(self) -> Iterator[Finding]:
        yield from _duplicates([field.id for field in self._dataset.lance_schema.walk()], "field id", "schema")

    def _fragment(self, fragment: DataFragment) -> Iterator[Finding]:
        where = f"fragment {fragment.id}"
        top = self._dataset.manifest.max_fragment_id
        if top is not None and fragment.id > top:
            yield Finding(f"the manifest says that the largest fragment id is {top}", where, _REWRITE)
        live = [field_id for file in fragment.files for field_id in file.columns()]
        yield from _duplicates(live, "field id in several columns:", where)
        yield from self._missing_required(fragment, frozenset(live), where)
        rows = fragment.physical_rows
        for file in fragment.files:
            for finding, count in self._file(file, rows, where):
                rows = count if rows is None else rows
                if finding is not None:
                    yield finding
        yield from self._deletions(fragment, where)
        yield from self._sequence(fragment, rows, where)

    def _missing_required(self, fragment: DataFragment, live: frozenset[int], where: str) -> Iterator[Finding]:
        for field in self._dataset.lance_schema.fields:
            if not field.nullable and fragment.files and not live.intersection(node.id for node in field.walk()):
                yield Finding(
                    f"column {field.name!r} (field {field.id}) is not null but has no values", where, _REWRITE
                )

    def _file(self, file: DataFile, rows: int | None, where: str) -> Iterator[tuple[Finding | None, int | None]]:
        place = f"{where}, file {file.path}"
        try:
            store, path = self._bases.data_file(file)
            size = store.size(path)
            if file.size_bytes is not None and size != file.size_bytes:
                yield Finding(f"it has {size} bytes, the manifest says {file.size_bytes}", place, _RESTORE), None
            reader = open_data_file(store, path, size=size)
            columns = reader.columns
        except LanceError as error:
            yield Finding(str(error), place, _RESTORE), None
            return
        yield None, reader.num_rows
        if rows is not None and reader.num_rows != rows:
            yield Finding(f"it has {reader.num_rows} rows, the fragment has {rows}", place, _REWRITE), None
        if reader.version is not file.version:
            versions = f"it is of version {reader.version.value}, the manifest says {file.version.value}"
            yield Finding(versions, place, _RESTORE), None
        for what in differing_types(self._dataset.lance_schema, reader.schema, file.columns()):
            yield Finding(what, place, _REWRITE), None
        for field_id, index in file.columns().items():
            if file.column_indices and index not in columns.values():
                yield Finding(f"field {field_id} is in column {index}, which the file has not", place, _REWRITE), None
        for finding in _pages(reader, place):
            yield finding, None

    def _deletions(self, fragment: DataFragment, where: str) -> Iterator[Finding]:
        if fragment.deletion_file is None:
            return
        try:
            _ = FragmentReader(fragment, self._bases).deletions
        except LanceError as error:
            yield Finding(str(error), f"{where}, {fragment.deletion_file.path(fragment.id)}", _RESTORE)

    def _sequence(self, fragment: DataFragment, rows: int | None, where: str) -> Iterator[Finding]:
        """Row ids of one fragment; the ids of live rows are stored to be compared with other fragments."""
        for what in wrong_row_versions(fragment, rows, self._dataset.version):
            yield Finding(what, where, _REWRITE)
        if not self._dataset.manifest.has_stable_row_ids:
            return
        if fragment.row_ids is None and not LINEAGE_FIELD_IDS.intersection(fragment.lineage_fields):
            yield Finding("it has no row ids, but the table has stable row ids", where, _REWRITE)
            return
        try:
            if fragment.row_ids is not None:
                largest = RowIdSequence.from_bytes(fragment.row_ids, rows).largest
                if rows and largest >= self._dataset.manifest.next_row_id:
                    yield Finding(f"row id {largest} was not assigned yet", where, _REWRITE)
            plan = self._dataset.plan(columns=[], with_row_id=True)
            for batch in plan.read([fragment]):
                self._row_ids.append(batch.column("_rowid").to_numpy(zero_copy_only=False).astype(np.int64))
        except LanceError as error:
            yield Finding(str(error), f"{where}, row ids", _REWRITE)

    def _unique_row_ids(self) -> Iterator[Finding]:
        if self._row_ids:
            ids, counts = np.unique(np.concatenate(self._row_ids), return_counts=True)
            twice = ids[counts > 1]
            if len(twice):
                yield Finding(
                    f"{len(twice)} row ids belong to several rows, {int(twice[0])} first", "row ids", _REWRITE
                )

    def _indexes(self) -> Iterator[Finding]:
        try:
            indexes = parse_indices(self._dataset.manifest.index_section)
        except LanceError as error:
            yield Finding(str(error), "index section", "drop the indexes and build them again")
            return
        for index in indexes:
            yield from self._index(index)
        try:
            for name, what in wrong_coverage(indexes, self._dataset.version):
                yield Finding(what, f"index {name}", "drop the index and build it again")
        except LanceError:
            return  # The check of the single index has reported it.

    def _index(self, index: IndexMetadata) -> Iterator[Finding]:
        where, advice = f"index {index.name} ({index.uuid})", "drop the index and build it again"
        field_ids = {field.id for field in self._dataset.lance_schema.walk()}
        unknown = sorted(index.fields - field_ids)
        if unknown and not index.is_system:
            yield Finding(f"it is over fields {unknown}, which the schema has not", where, advice)
        top = self._dataset.manifest.max_fragment_id
        try:
            covered = index.fragment_ids()
            # Fragments that were removed since may still be listed; ids that were never assigned may not.
            if len(covered) and top is not None and covered.max() > top:
                yield Finding(f"it covers fragment {covered.max()}, the largest id is {top}", where, advice)
            if not index.is_system:
                yield from self._index_files(index, where, advice)
        except LanceError as error:
            yield Finding(str(error), where, advice)

    def _index_files(self, index: IndexMetadata, where: str, advice: str) -> Iterator[Finding]:
        base_id = None if index.base_id is None else BaseId(index.base_id)
        store, folder = self._bases.index_folder(index.uuid, base_id)
        sizes = _sizes(store, folder)
        if not sizes:
            yield Finding(f"there are no files in {folder}", where, advice)
            return
        for file in index.message.files:
            size = sizes.get(f"{folder}/{file.path}")
            if size is None:
                yield Finding(f"file {file.path} is missing", where, advice)
            elif file.size_bytes and size != file.size_bytes:
                yield Finding(f"file {file.path} has {size} bytes, the manifest says {file.size_bytes}", where, advice)


def _sizes(store: ObjectStore, folder: str) -> dict[str, int]:
    return {item.path: item.size for item in store.list(folder, recursive=True)}


def _pages(reader: DataFileReader, place: str) -> Iterator[Finding]:
    """Decodes all values of a file. After an error in a column the rest of it is read too."""
    columns = reader.columns
    for field in reader.schema.fields:
        seen: set[str] = set()
        for start in range(0, reader.num_rows, _WINDOW_ROWS):
            rows = RowRanges.of(start, min(start + _WINDOW_ROWS, reader.num_rows))
            try:
                for array in reader.read([field], columns, rows):
                    array.validate(full=True)
            except (LanceError, ValueError) as error:
                if str(error) not in seen:
                    seen.add(str(error))
                    yield Finding(str(error), f"{place}, column {field.name!r} (field {field.id})", _RESTORE)


def _duplicates(numbers: Sequence[int], what: str, where: str) -> Iterator[Finding]:
    values, counts = np.unique(np.array(numbers, np.int64), return_counts=True)
    for value in values[counts > 1].tolist():
        yield Finding(f"{what} {value} is there more than once", where, _REWRITE)


def differing_types(table: LanceSchema, file: LanceSchema, columns: Mapping[FieldId, int]) -> Iterator[str]:
    """Mismatches between the column types of a file and of its table; fields that the table does not read are skipped.

    Args:
        columns: the fields of the file that the table reads, with their columns.
    """
    by_id = {field.id: field for field in file.walk()}
    for field in table.walk():
        stored = by_id.get(field.id)
        # A blob has another form in the table than in its files.
        if field.id not in columns or stored is None or is_blob(field):
            continue
        if _kind(stored) != _kind(field):
            yield (
                f"column {field.name!r} (field {field.id}) is {stored.logical_type} in the file, "
                f"the table says {field.logical_type}"
            )


def wrong_row_versions(fragment: DataFragment, num_rows: int | None, version: int) -> Iterator[str]:
    """Errors in the versions in which rows of a fragment were created and last changed.

    Args:
        version: of the table; no row can come from a later one.
    """
    for what, data in (
        ("created", fragment.created_at_versions),
        ("last changed", fragment.last_updated_at_versions),
    ):
        if data is None:
            continue
        try:
            sequence = RowDatasetVersionSequence.from_bytes(data, num_rows)
        except LanceError as error:
            yield f"the versions in which rows were {what}: {error}"
            continue
        later = [run for _, run in sequence.runs if run > version]
        if later:
            yield f"rows were {what} in version {max(later)}, after version {version} of the table"


def wrong_coverage(indexes: Sequence[IndexMetadata], version: int) -> Iterator[tuple[str, str]]:
    """(index, what is wrong) where segments of an index overlap, or one is newer than the table.

    Raises:
        CorruptFileError: a bitmap of fragments is damaged.
    """
    seen: dict[str, pyroaring.BitMap] = {}
    for index in indexes:
        if index.message.dataset_version > version:
            yield index.name, f"it was built at version {index.message.dataset_version}, after version {version}"
        if index.is_system:
            continue
        before, covered = seen.get(index.name, pyroaring.BitMap()), index.fragment_ids()
        if before & covered:
            yield index.name, f"several of its segments cover fragments {sorted(before & covered)[:5]}"
        seen[index.name] = before | covered


def _kind(field: Field) -> str:
    """The logical type; a list is the same with and without the suffix that names its item a struct."""
    return field.logical_type.removesuffix(".struct")
