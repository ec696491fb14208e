"""Opens and writes a table of either kind by its URI. What only partitioned tables need is imported for them alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_spark.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.storage.paths import UriOrPath
from lance_spark.table.access import open_dataset, write_dataset
from lance_spark.table.bases import BasePath
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.reference_arguments import refuse_write_options, takes_reference_arguments
from lance_spark.table.writing.file_limits import DEFAULT_MAX_BYTES_PER_FILE, DEFAULT_MAX_ROWS_PER_FILE
from lance_spark.table.writing.modes import CREATE, check_mode

if TYPE_CHECKING:
    from lance_spark.partitioned.dataset import PartitionedDataset
    from lance_spark.table.moments import Moment


@takes_reference_arguments("open")
def open_table(
    uri: UriOrPath,
    version: int | str | None = None,
    *,
    tag: str | None = None,
    branch: str | None = None,
    timestamp: Moment | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Dataset | PartitionedDataset:
    """Opens a version of the table at `uri`, by default the newest one; at the root of a partitioned table that table.

    Args:
        uri: a URI, or a local path as a string or a `pathlib.Path`.
        version: its number, or the name of a tag.
        tag: a tag; it determines the branch.
        branch: the branch of the version; None is the main one.
        timestamp: the newest version committed at or before this time: a datetime, `pandas.Timestamp` or
            `numpy.datetime64`; without a zone it is local time, and a date is its first moment.
        storage_options: credentials and endpoint of the store, such as ``{"aws_region": "eu-west-1"}``.

    Raises:
        NotFoundError: no such table, version, tag or branch.
        InvalidInputError: more than one of version, tag and timestamp, a timestamp that is no time, or a branch
            other than the tag's.
        CorruptFileError: the manifest violates the format.
        UnsupportedFeatureError: the table needs a feature that this release does not read, or a branch of a
            partitioned table is asked for.
    """
    if isinstance(version, str):
        if tag is not None:
            raise InvalidInputError("give one of version and tag")
        version, tag = None, version
    try:
        return open_dataset(
            uri, version=version, tag=tag, branch=branch, timestamp=timestamp, storage_options=storage_options
        )
    except NotFoundError:
        from lance_spark.partitioned.table import is_partitioned_table

        if not is_partitioned_table(uri, storage_options):
            raise
    if branch is not None:
        raise UnsupportedFeatureError(
            f"the partitioned table {uri} has no branch {branch!r}: its versions are in one line; leave branch out",
            feature="branches of partitioned tables",
        )
    from lance_spark.partitioned.dataset import open_partitioned_dataset

    return open_partitioned_dataset(uri, version=version, tag=tag, timestamp=timestamp, storage_options=storage_options)


def write_table(
    data: Any,
    uri: UriOrPath,
    *,
    mode: str = CREATE,
    partition_by: Sequence[str] = (),
    schema: pa.Schema | None = None,
    file_format_version: str | None = None,
    max_rows_per_file: int = DEFAULT_MAX_ROWS_PER_FILE,
    max_bytes_per_file: int = DEFAULT_MAX_BYTES_PER_FILE,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    enable_stable_row_ids: bool = False,
    commit_message: str | None = None,
    transaction_properties: Mapping[str, str] | None = None,
    merge_schema: bool = False,
    initial_bases: Sequence[BasePath] = (),
    target_bases: Sequence[str] = (),
    auto_zonemap: str | None = None,
    properties: Mapping[str, str] | None = None,
    **others: Any,
) -> Dataset | PartitionedDataset:
    """Writes rows into the table at `uri` and commits them as one version.

    Args:
        data: a Table, RecordBatch, RecordBatchReader, Dataset or Scanner of pyarrow; a pandas DataFrame, whose index
            is a column unless it is a range; anything that exports Arrow data, such as the tables of polars and DuckDB;
            a list of dicts, a dict of columns; or an iterable of RecordBatches. Streams are read as they are written.
        uri: a URI, or a local path as a string or a `pathlib.Path`.
        mode: "create" (the table must not exist), "append" or "overwrite" (both create it if necessary).
        partition_by: transforms that make a new table a partitioned one, as in PARTITIONED BY: a column,
            "bucket(16, id)", "truncate(2, name)", "years(ts)", "months(ts)", "days(ts)", "hours(ts)",
            "expression('col0 % 10', id)". Those of a table that is there have to be the same.
        schema: the types of plain Python values, and for an iterable that may be empty.
        file_format_version: "2.0", "2.1" or "2.2"; None is that of the table, or 2.2 for a new one.
        max_rows_per_file: the rows after which a new data file, and fragment, begins, 1,048,576 by default.
        max_bytes_per_file: the bytes after which one begins, 90 GiB by default.
        branch: the branch to write to; None is the main one.
        storage_options: credentials and endpoint of the store, such as ``{"aws_region": "eu-west-1"}``.
        enable_stable_row_ids: assigns row ids to the rows of a new table that survive updates and compaction.
        commit_message: stored with the version.
        transaction_properties: stored with the version.
        merge_schema: whether an append adds new columns to the table; they are null in existing rows.
        initial_bases: additional roots for files of a new table; `Dataset.add_bases` adds some later.
        target_bases: names of the base paths that get the data files in turn; none for the table's own root.
        auto_zonemap: columns with commas between them, or "*", that get zone maps; None is what the property
            `lance.auto_zonemap` of the table says.
        properties: of a new table, such as ``{"lance.auto_cleanup.interval": "20"}``; one that is there keeps its own.
        others: keyword arguments of the reference library, which are refused with what to write instead.

    Raises:
        NotFoundError: there is no base path with one of the names, or no column of those for zone maps.
        InvalidInputError: the table exists (mode "create"), the rows do not match it, or a column can have no zone map.
            Nothing was changed.
        CommitConflictError: it conflicts with a concurrent transaction. Nothing was changed.
        CommitStateUnknownError: it is unknown whether the version was committed.
        StorageError: the store failed. Nothing was changed.
        UnsupportedFeatureError: the table, or the columns, need a feature that this release does not write, such as
            branches and base paths of a partitioned table.
    """
    from lance_spark.table.row_level.row_verbs import RowsToWrite
    from lance_spark.table.row_level.write_target import WriteMode
    from lance_spark.table.versions.known_properties import check_known
    from lance_spark.table.writing.base_selection import checked_bases
    from lance_spark.table.writing.file_limits import FileLimits
    from lance_spark.table.writing.row_source import RowSource
    from lance_spark.table.writing.save import CommitOptions

    refuse_write_options(others)
    check_mode(mode)
    check_known(properties or {})
    options = CommitOptions(
        message=commit_message,
        properties=transaction_properties,
        stable_row_ids=enable_stable_row_ids,
        initial_bases=checked_bases(initial_bases),
        zone_maps=auto_zonemap,
        config=dict(properties) if properties else None,
    )
    rows = RowsToWrite(RowSource.of(data, schema), FileLimits(max_rows_per_file, max_bytes_per_file), options)
    to_both: dict[str, Any] = {
        "storage_options": storage_options,
        "file_format_version": file_format_version,
        "merge_schema": merge_schema,
    }
    if not partition_by:
        return write_dataset(rows, uri, WriteMode(mode), branch=branch, target_bases=target_bases, **to_both)
    from lance_spark.partitioned.write import write_partitioned

    for name, value in (("branch", branch), ("initial_bases", initial_bases), ("target_bases", target_bases)):
        if value:
            raise UnsupportedFeatureError(f"a partitioned table has no {name}; leave it out", feature=name)
    return write_partitioned(rows, uri, partition_by, WriteMode(mode), **to_both)


def find_table(
    location: TableLocation, *, version: int | None = None, tag: str | None = None, timestamp: Moment | None = None
) -> Dataset | PartitionedDataset | None:
    """A version of the table or branch at a place, by default the newest; at a partitioned table's root that table.

    Args:
        version, tag, timestamp: at most one: a number; a tag, which determines the branch; the newest version committed
            at or before this time.

    Returns:
        None if there is no table.

    Raises:
        NotFoundError: there is no such branch, version or tag.
    """
    is_newest = version is None and tag is None and timestamp is None
    manifest = location.latest() if is_newest else None
    if manifest is not None:
        return Dataset(location, manifest)
    if not is_newest and (location.branch is not None or location.history.latest_location() is not None):
        if tag is not None:
            named = location.refs.tag(tag)
            location, version = location.on_branch(named.branch), named.version
        if version is not None:
            return Dataset(location, location.at(version).manifest)
        assert timestamp is not None, "a version was chosen"
        return Dataset(location, location.as_of(timestamp).manifest)
    if location.branch is not None:
        return None
    from lance_spark.partitioned.dataset import find_partitioned_table

    return find_partitioned_table(
        location.uri, version=version, tag=tag, timestamp=timestamp, storage_options=location.storage_options
    )
