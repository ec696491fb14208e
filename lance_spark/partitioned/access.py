"""Opens a table of either kind by its URI. What only partitioned tables need is imported for them alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lance_spark.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.storage.paths import UriOrPath
from lance_spark.table.access import open_dataset
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.reference_arguments import takes_reference_arguments

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
