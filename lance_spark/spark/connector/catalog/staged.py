"""Tables that a statement makes or replaces: their rows come first, and they are visible with the commit.

`StagedTable` is what plain and partitioned tables do differently then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.errors import AlreadyExistsError, NotFoundError
from lance_spark.namespace.directory import DirectoryNamespace
from lance_spark.namespace.directory_places import delete_tables_in
from lance_spark.namespace.locations import CATALOG_DIRECTORY
from lance_spark.spark.connector.catalog.resolve import ResolvedTable, directory, remove_expired_tables
from lance_spark.spark.connector.catalog.table import TableDescription
from lance_spark.spark.connector.channel.handles import CatalogSettings, Staged, TableHandle
from lance_spark.spark.connector.write.job_task import unpickle_job, unpickle_results
from lance_spark.spark.jobs.target import Version
from lance_spark.spark.jobs.write_job import WriteJob
from lance_spark.spark.options.catalog import CatalogOptions
from lance_spark.spark.options.options import WriteOptions
from lance_spark.storage import open_store


class StagedTable(ABC):
    """A table that a statement is about to make or replace.

    Attributes:
        handle: of the table.
        staged: what the statement says of it.
    """

    def __init__(self, handle: TableHandle) -> None:
        assert handle.staged is not None, "the table is staged"
        self.handle = handle
        self.staged: Staged = handle.staged

    @abstractmethod
    def job(
        self,
        columns: StructType,
        options: Mapping[str, str],
        *,
        like: pa.Schema | None = None,
        from_query: bool = False,
    ) -> WriteJob:
        """The job that fills the table with rows in `columns`.

        Args:
            like: columns of another table, whose types those of a new table get.
            from_query: whether `columns` are those of a query; then columns that it makes are nullable, as in Spark.
        """

    @abstractmethod
    def give_up(self) -> None:
        """Removes what the statement has made, unless somebody has changed it since."""

    @abstractmethod
    def describe(self, place: ResolvedTable, made: Version | None) -> TableDescription:
        """The table after the commit, which has made the version `made`."""

    @abstractmethod
    def _delete_unnamed(self, made: Version | None) -> None:
        """Deletes the table that did not get its name, if it is still as the commit has left it."""

    def commit(self, attachments: tuple[bytes, ...] = (), like: pa.Schema | None = None) -> Version | None:
        """Commits the rows that the attachments describe, or none, and gives the table its name.

        Args:
            attachments: the pickled job, then the results of its tasks.

        Raises:
            AlreadyExistsError, NotFoundError: another statement was first with the name. The new table is deleted.
        """
        job = unpickle_job(attachments[0]) if attachments else self.job(self.staged.columns, {}, like=like)
        made = job.commit(unpickle_results(attachments[1:]))
        if self.staged.location is not None:
            try:
                give_name(self.staged)
            except (AlreadyExistsError, NotFoundError):
                self._delete_unnamed(made)
                raise
        return made


def stable_row_ids(options: WriteOptions, catalog: CatalogSettings | None) -> bool:
    """Whether a table that is made gets stable row ids: its options say so, or else its catalog does."""
    if options.enable_stable_row_ids is not None or catalog is None:
        return bool(options.enable_stable_row_ids)
    return CatalogOptions.parse(catalog.settings).enable_stable_row_ids


def name_of(staged: Staged) -> tuple[DirectoryNamespace, tuple[str, ...]]:
    """The name that a table is to get, and where."""
    assert staged.catalog is not None, "a name is one of a catalog"
    assert staged.identifier is not None, "a path has its place"
    return directory(staged.catalog), staged.identifier


def give_name(staged: Staged) -> None:
    """Gives a staged table its name, which another table may have until now.

    Raises:
        AlreadyExistsError: another statement was first with the name.
        NotFoundError: the table that is to be replaced no longer exists.
    """
    names, identifier = name_of(staged)
    assert staged.location is not None, "the table has a directory of its own"
    if staged.replaces is None:
        names.declare_table(identifier, location=staged.location)
    else:
        names.replace_table(identifier, staged.replaces, staged.location)
        assert staged.catalog is not None, "a name is one of a catalog"
        remove_expired_tables(staged.catalog)


def has_own_directory(staged: Staged) -> bool:
    """Whether the table is in a directory that nobody else uses, whatever its name."""
    return staged.location is not None and staged.catalog is not None and "location" not in staged.properties


def delete_staged(handle: TableHandle, staged: Staged) -> None:
    """Deletes the files of a table that never got its name."""
    if staged.catalog is not None and staged.location is not None and has_own_directory(staged):
        root, directory_name = directory(staged.catalog).root, staged.location
    else:
        root, directory_name = handle.uri, CATALOG_DIRECTORY
    delete_tables_in(open_store(root, handle.storage_options), root, directory_name, handle.storage_options)
