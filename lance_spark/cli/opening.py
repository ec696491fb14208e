"""Opens the target of a command: a version of a plain table, or of a partitioned one with all its partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.partitioned.manifest_index import Partition
from lance_spark.partitioned.table import PartitionedTable, is_partitioned_table, open_partitioned
from lance_spark.table.access import open_dataset
from lance_spark.table.dataset import Dataset


@dataclass(frozen=True)
class CommandTarget:
    """A version of a table.

    Attributes:
        dataset: the plain table; of a partitioned one its `__manifest`.
        partitioned: None for a plain table.
    """

    uri: str
    dataset: Dataset
    partitioned: PartitionedTable | None = None

    @property
    def version(self) -> int:
        return self.dataset.version

    def partitions(self) -> Iterator[tuple[Partition, Dataset]]:
        """The partitions of a partitioned table, each at the version that this version names."""
        if self.partitioned is not None:
            for partition in self.partitioned.partitions():
                opened = self.partitioned.open(partition)
                yield partition, Dataset(opened.table, opened.manifest)


def open_target(
    uri: str,
    *,
    version: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> CommandTarget:
    """The version of the table at `uri`, plain or partitioned, that the arguments of a command name.

    Raises:
        NotFoundError: there is no such table, version, branch or tag.
        InvalidInputError: the arguments are invalid.
    """
    try:
        dataset = open_dataset(uri, version=version, branch=branch, tag=tag, storage_options=storage_options)
    except NotFoundError:
        if not is_partitioned_table(uri, storage_options):
            raise
    else:
        return CommandTarget(dataset.uri, dataset)
    if branch is not None:
        raise InvalidInputError(f"{uri} is a partitioned table, which has no branches; leave out --branch")
    table = open_partitioned(uri, version=version, tag=tag, storage_options=storage_options)
    location = table.catalog.table
    return CommandTarget(table.root, Dataset(location, location.at(table.version).manifest), table)
