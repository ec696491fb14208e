"""Checks of `verify` that compare what a table says with what its files say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyroaring

from lance_spark.errors import LanceError
from lance_spark.schema.columns import is_blob
from lance_spark.schema.field import Field, FieldId, LanceSchema
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.rows.row_versions import RowDatasetVersionSequence


def differing_types(table: LanceSchema, file: LanceSchema, columns: Mapping[FieldId, int]) -> Iterator[str]:
    """Mismatches between the column types of a file and of its table; fields that the table does not read are skipped.

    Args:
        columns: the fields of the file that the table reads, with their columns.
    """
    known = {field.id: field for field in file.walk()}
    for field in table.walk():
        stored = known.get(field.id)
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
