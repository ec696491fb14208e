"""Steps common to all next manifests: fragment ids, row ids, and the feature flags implied by the content."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from lance_spark._proto import table_pb2
from lance_spark.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_spark.file_version import FileVersion
from lance_spark.table.manifests.features import CARRIED, STICKY_PAIRS, FeatureFlag
from lance_spark.table.manifests.manifest import Manifest, WriterVersion
from lance_spark.table.rows.fragment import MAX_FRAGMENT_ID, DataFragment, FragmentId, has_row_ids, lineage_fields
from lance_spark.table.rows.row_ids import RowIdSequence
from lance_spark.table.rows.row_versions import RowDatasetVersionSequence

_OF_FRAGMENTS = FeatureFlag.DELETION_FILES | FeatureFlag.SPILLED_ROW_LINEAGE | FeatureFlag.MIXED_DATA_FILE_VERSIONS
"""Flags that fragments require, for as long as the version has them."""


def largest_fragment_id(manifest: Manifest) -> int:
    """The largest fragment id that the table ever used, -1 if none."""
    used = max((message.id for message in manifest.fragments.messages), default=-1)
    return used if manifest.max_fragment_id is None else max(used, manifest.max_fragment_id)


def check_distinct_ids(manifest: Manifest) -> None:
    """Passes if no two fragments have one id, so that a fragment can be replaced by its id.

    Raises:
        InvalidInputError: some have, as old releases wrote them.
    """
    if len(manifest.fragments.ids) < len(manifest.fragments):
        raise InvalidInputError(
            "fragments of the table share an id, as old releases wrote them, so none can be replaced; "
            "write the rows to a new table"
        )


def id_after(largest_id: int, num_new: int) -> int | None:
    """`max_fragment_id` after adding `num_new` fragments; None if the table never had one."""
    return largest_id + num_new if largest_id + num_new >= 0 else None


def assign_fragment_ids(fragments: Iterable[DataFragment], largest_id: int) -> tuple[DataFragment, ...]:
    """New fragments with the ids that follow `largest_id`.

    Raises:
        UnsupportedFeatureError: the table has used all of its 2**32 fragment ids.
    """
    new = tuple(replace(fragment, id=FragmentId(largest_id + 1 + place)) for place, fragment in enumerate(fragments))
    if new and new[-1].id > MAX_FRAGMENT_ID:
        raise UnsupportedFeatureError("the table has no fragment ids left", feature="fragment ids beyond 32 bits")
    return new


def with_row_ids(
    fragments: Sequence[DataFragment], next_row_id: int, version: int
) -> tuple[tuple[DataFragment, ...], int]:
    """New fragments with ids for their rows, created at `version`; and the next free row id.

    Raises:
        InvalidInputError: a fragment has no row count.
    """
    result: list[DataFragment] = []
    for fragment in fragments:
        if fragment.physical_rows is None:
            raise InvalidInputError("a fragment without a number of rows cannot be given row ids")
        versions = RowDatasetVersionSequence.uniform(fragment.physical_rows, version).to_bytes()
        row_ids = RowIdSequence.of_range(next_row_id, fragment.physical_rows).to_bytes()
        next_row_id += fragment.physical_rows
        result.append(
            replace(fragment, row_ids=row_ids, created_at_versions=versions, last_updated_at_versions=versions)
        )
    return tuple(result), next_row_id


def checked_row_id(manifest: Manifest) -> int:
    """The next free row id of a table with stable row ids.

    Raises:
        CorruptFileError: a fragment has no row ids, so the free ids are unknown.
    """
    if not all(has_row_ids(message) for message in manifest.fragments.messages):
        raise CorruptFileError("the table has stable row ids, but a fragment of it has none")
    return manifest.next_row_id


def data_format(manifest: Manifest) -> FileVersion | None:
    """The file version of a table; in a manifest without it, that of its first data file."""
    if manifest.file_version is not None:
        return manifest.file_version
    return next((file.version for fragment in manifest.fragments for file in fragment.files), None)


def keeps_places(before: Manifest, after: Manifest) -> bool:
    """Whether files written for `before` can be part of `after`: it has the same file version, and all of its bases."""
    return data_format(before) == data_format(after) and set(before.base_paths) <= set(after.base_paths)


def with_flags(
    manifest: Manifest, previous: Manifest | None, stable_row_ids: bool, *, is_appended: bool = False
) -> Manifest:
    """`manifest` with the feature flags that its content requires and those inherited from `previous`.

    Args:
        is_appended: the fragments begin with those of `previous`, unchanged.

    Raises:
        InvalidInputError: legacy data files are mixed with others.
    """
    both, messages = FeatureFlag(0), manifest.fragments.messages
    if is_appended and previous is not None and _has_our_flags(previous):
        # The fragments of a large table take more time than all else of an append.
        both |= FeatureFlag(previous.reader_flags) & _OF_FRAGMENTS
        messages = messages[len(previous.fragments) :]
    both |= _flags_of_fragments(messages, manifest.file_version)
    if stable_row_ids:
        both |= FeatureFlag.STABLE_ROW_IDS
    if manifest.base_paths:
        both |= FeatureFlag.BASE_PATHS
    writer = both | (FeatureFlag.TABLE_CONFIG if manifest.config else FeatureFlag(0))
    if previous is not None:
        both |= FeatureFlag(previous.reader_flags) & (CARRIED | STICKY_PAIRS)
        writer |= FeatureFlag(previous.writer_flags) & (CARRIED | STICKY_PAIRS)
    return replace(
        manifest,
        reader_flags=int(both),
        writer_flags=int(writer),
        max_allocated_field_id=_allocated(manifest, previous, writer),
    )


def _has_our_flags(manifest: Manifest) -> bool:
    """Whether this release wrote a version, so that its flags are what `with_flags` found in its fragments."""
    return manifest.writer_version == writer_version() and manifest.file_version is not None


def _flags_of_fragments(messages: Sequence[table_pb2.DataFragment], expected: FileVersion | None) -> FeatureFlag:
    flags = FeatureFlag(0)
    if any(message.HasField("deletion_file") for message in messages):
        flags |= FeatureFlag.DELETION_FILES
    if any(lineage_fields(message) for message in messages):
        flags |= FeatureFlag.SPILLED_ROW_LINEAGE
    if has_mixed_versions(messages, expected):
        flags |= FeatureFlag.MIXED_DATA_FILE_VERSIONS
    return flags


def _allocated(manifest: Manifest, previous: Manifest | None, writer: FeatureFlag) -> int | None:
    """The largest field id that was ever assigned, in a table that records it."""
    if not writer & FeatureFlag.NON_REUSABLE_FIELD_IDS:
        return None
    recorded = (manifest.max_allocated_field_id, None if previous is None else previous.max_allocated_field_id)
    return max(manifest.schema.max_field_id, *(-1 if number is None else number for number in recorded))


def has_mixed_versions(messages: Sequence[table_pb2.DataFragment], expected: FileVersion | None) -> bool:
    """True if a data file of some fragments has another version than the table, which has `expected`.

    Raises:
        InvalidInputError: legacy data files are mixed with others.
    """
    numbers = {(file.file_major_version, file.file_minor_version) for message in messages for file in message.files}
    versions = {FileVersion.from_numbers(*pair) for pair in numbers}
    others = versions - {expected}
    if others and expected is not None and FileVersion.V0_1 in versions | {expected}:
        raise InvalidInputError(
            f"a table of version {expected.value} cannot hold data files of version "
            f"{', '.join(sorted(version.value for version in others))}: overwrite it to change the version"
        )
    return bool(others)


@cache
def writer_version() -> WriterVersion:
    """This library. Reading the metadata of its distribution takes milliseconds."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as distribution_version

    try:
        return WriterVersion("lance_spark", distribution_version("lance-spark"))
    except PackageNotFoundError:
        return WriterVersion("lance_spark", "0.0.0")
