"""Opens and writes a table by its URI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.storage.paths import UriOrPath
from lance_spark.table.bases import Bases
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.after_commit import maintain_after, zoned
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.paths import TREE

if TYPE_CHECKING:
    from lance_spark.table.moments import Moment
    from lance_spark.table.row_level.row_verbs import RowsToWrite
    from lance_spark.table.row_level.write_target import WriteMode
    from lance_spark.table.writing.save import CommitOptions

_NAMESPACE_FOLDER = "__manifest"


def located(
    uri: UriOrPath, storage_options: Mapping[str, str] | None = None, branch: str | None = None
) -> TableLocation:
    """The branch of the table at `uri`; the root of a branch (``<table>/tree/<branch>``) means the branch.

    Raises:
        NotFoundError: there is no such branch.
        InvalidInputError: an invalid URI, or the name is not valid for a branch.
    """
    location = TableLocation(uri, storage_options, branch=branch, after_commit=maintain_after)
    if branch is not None or f"/{TREE}/" not in location.uri:
        return location
    newest = location.latest()
    suffix = f"/{TREE}/{None if newest is None else newest.branch}"
    if not location.uri.endswith(suffix):
        return location
    try:
        name = suffix.removeprefix(f"/{TREE}/")
        root = location.uri.removesuffix(suffix)
        return TableLocation(root, storage_options, branch=name, after_commit=maintain_after)
    except NotFoundError:
        return location  # A folder that was copied separately.


def open_dataset(
    uri: UriOrPath,
    *,
    version: int | None = None,
    tag: str | None = None,
    branch: str | None = None,
    timestamp: Moment | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Dataset:
    """Opens a version of the table at `uri`, by default the newest one.

    Args:
        uri: a URI, or a local path as a string or a `pathlib.Path`.
        version: its number.
        tag: a tag; it determines the branch.
        branch: the branch of the version; None is the main one.
        timestamp: the newest version committed at or before this time: a datetime, `pandas.Timestamp` or
            `numpy.datetime64`; without a zone it is local time, and a date is its first moment.

    Raises:
        NotFoundError: no such table, version, tag or branch.
        InvalidInputError: more than one of version, tag and timestamp, or a branch other than the tag's.
        CorruptFileError: the manifest violates the format.
        UnsupportedFeatureError: the table needs a feature that this release does not read.
    """
    if [version, tag, timestamp].count(None) < 2:
        raise InvalidInputError("give one of version, tag and timestamp")
    location = located(uri, storage_options, branch)
    if tag is not None:
        named = location.refs.tag(tag)
        if branch is not None and named.branch != location.branch:
            raise InvalidInputError(f"tag {tag!r} names a version of branch {named.branch or 'main'!r}, not {branch!r}")
        location = location.on_branch(named.branch)
        version = named.version
    if version is not None:
        return Dataset(location, location.at(version).manifest)
    if timestamp is not None:
        return Dataset(location, location.as_of(timestamp).manifest)
    return Dataset(location, location.history.load_latest().manifest)


def write_dataset(
    rows: RowsToWrite,
    uri: UriOrPath,
    mode: WriteMode,
    *,
    storage_options: Mapping[str, str] | None = None,
    file_format_version: str | None = None,
    merge_schema: bool = False,
    branch: str | None = None,
    target_bases: Sequence[str] = (),
) -> Dataset:
    """The table without partitions at `uri` with the rows, as one version. Raises as `lance_spark.write`."""
    from lance_spark.table.row_level.plain_target import PlainTarget
    from lance_spark.table.row_level.row_verbs import write_rows
    from lance_spark.table.row_level.write_target import WriteMode
    from lance_spark.table.writing.identity import without_identities

    options, zone_maps = rows.options, rows.options.zone_maps
    location = located(uri, storage_options, branch)
    base = location.latest()
    _check_creation(location, base, options)
    source = rows.source
    if base is None or mode is not WriteMode.APPEND:
        source = without_identities(source)
    target = PlainTarget.of(zoned(location, zone_maps), base).taking(
        source.schema, rows.limits, mode=mode, merge_schema=merge_schema, file_format_version=file_format_version
    )
    if zone_maps is not None:
        from lance_spark.table.indexes.auto_zonemap import check_zone_columns

        check_zone_columns(target.table_schema, zone_maps)
    if target_bases:
        all_bases = Bases(
            location.store, options.initial_bases if base is None else base.base_paths, location.storage_options
        )
        target = replace(target, bases=all_bases, target_bases=tuple(target_bases))
    return Dataset(location, write_rows(target, source, options, mode))


def check_row_ids(*, has_stable: bool, wants_stable: bool) -> None:
    """Refuses stable row ids for a table that was made without them.

    Raises:
        InvalidInputError: it was, and they are wanted.
    """
    if wants_stable and not has_stable:
        raise InvalidInputError("stable row ids are chosen when a table is created; this one has none")


def _check_creation(location: TableLocation, base: Manifest | None, options: CommitOptions) -> None:
    """Refuses options of a new table for one that exists, and a new table in the root of a namespace."""
    if base is not None:
        check_row_ids(has_stable=base.has_stable_row_ids, wants_stable=options.stable_row_ids)
    if base is not None and options.config:
        raise InvalidInputError("the table exists and keeps its properties; leave them out")
    if base is not None and options.initial_bases:
        raise InvalidInputError("the table exists; add_bases adds base paths to it")
    if base is None and next(iter(location.store.list(f"{_NAMESPACE_FOLDER}/_versions")), None) is not None:
        raise InvalidInputError(
            f"{location.uri} is the root of a namespace or of a partitioned table. Name a table in the namespace, or "
            "write to the partitioned table: lance_spark.open(...).append(rows)"
        )
