"""Interface of a table version, plain or partitioned, for planners of reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import pyarrow as pa

from lance_spark.expr.nodes import Expr
from lance_spark.file_version import FileVersion
from lance_spark.schema.field import LanceSchema
from lance_spark.table.bases import Bases
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Split:
    """Fragments that belong together: all of a plain table, or those of one partition.

    A fragment is identified by the key of its split and its id, a row by that key and its address.

    Attributes:
        table: where the split's table is.
        manifest: its version; its fragments are the split's.
        key: None for the split of a plain table.
        shown_as: what errors call the version; None for its number and the root of `table`.
    """

    table: TableLocation
    manifest: Manifest
    key: str | None = None
    display_name: str | None = None

    @property
    def bases(self) -> Bases:
        """The stores that hold the split's files."""
        return self.table.bases(self.manifest, display_name=self.display_name, split_key=self.key)


class TableSource(Protocol):
    """One version of a table. `Dataset` and `PartitionedTable` are its two kinds."""

    @property
    def lance_schema(self) -> LanceSchema:
        """The columns with their field ids."""

    @property
    def stored_schema(self) -> pa.Schema:
        """The columns in the Arrow types in which they are stored, as plans read them."""

    @property
    def file_version(self) -> FileVersion | None:
        """File version of new data files; None if the table does not say."""

    @property
    def uri(self) -> str:
        """The root of the table's main branch, or of the partitioned namespace."""

    @property
    def branch(self) -> str | None:
        """The branch of the version; None for the main one, and for a partitioned table."""

    @property
    def version(self) -> int:
        """The number of the version: of the table's manifest, or of `__manifest`."""

    @property
    def timestamp(self) -> datetime:
        """When the version was committed."""

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether rows keep their ids when they move."""

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties."""

    @property
    def config(self) -> Mapping[str, str]:
        """The properties that users set: `properties` without those that define a partitioned table."""

    @property
    def versions_location(self) -> TableLocation:
        """The table whose versions are those of this one: of a partitioned table `__manifest`."""

    @property
    def versions_manifest(self) -> Manifest:
        """The manifest of the version at `versions_location`: its commit time, and marks of streams in its config."""

    @property
    def data_digest(self) -> str:
        """Text that is equal for versions of the table with the same data."""

    @property
    def num_splits(self) -> int:
        """Number of splits; none is opened."""

    @property
    def has_split_keys(self) -> bool:
        """Whether splits have keys. A row is then identified by a key and an address, else by its address alone."""

    @property
    def split_columns(self) -> Sequence[tuple[str, ...]]:
        """Paths of the columns whose values choose splits."""

    def splits(self, filter: Expr | str | None = None, *, time_zone: str = "UTC") -> Sequence[Split]:
        """The splits that may hold rows which match `filter`, in the order of the table.

        Raises:
            InvalidInputError: the filter is invalid.
            NotFoundError: it names a column that the table does not have, or the version has been cleaned up.
        """


def known_row_counts(splits: Iterable[Split]) -> list[int] | None:
    """The rows of each fragment of each split from metadata, deleted ones left out; None if one count is missing."""
    counts = [count for split in splits for count in split.manifest.fragments.row_counts()]
    known = [count for count in counts if count is not None]
    return known if len(known) == len(counts) else None
