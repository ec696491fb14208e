"""Plain tables as targets of writes: one split, one transaction a commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import Expr
from lance_spark.file.blob_writer import BlobSource
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.blob import has_blobs
from lance_spark.schema.field import FieldId, LanceSchema
from lance_spark.storage.base import ObjectStore
from lance_spark.table.bases import Bases
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.features import check_writable
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.manifest_builder import data_format, keeps_places
from lance_spark.table.paths import new_job
from lance_spark.table.reading.blobs.blob_columns import objects_only, sources_in, with_blob_descriptors
from lance_spark.table.row_level.delete import Search, address_scan, matching_rows
from lance_spark.table.row_level.read_conflicts import ReadRows, check_of
from lance_spark.table.row_level.rewritten_rows import MovedRowWriter, NewFragment
from lance_spark.table.row_level.row_changes import NewerVersionCheck, commit_row_changes, rows_by_fragment
from lance_spark.table.row_level.row_writer import RowOrigins, RowWriter, WrittenSplit
from lance_spark.table.row_level.write_target import (
    OtherTables,
    RowSearch,
    WriteMode,
    WriteTarget,
    check_columns_fit,
    unfit,
)
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.source import Split
from lance_spark.table.writing.file_limits import FileLimits
from lance_spark.table.writing.identity import IdentityColumns
from lance_spark.table.writing.modes import APPEND
from lance_spark.table.writing.row_pipeline import TaskRows
from lance_spark.table.writing.save import CommitOptions, WritePlan, commit_overwrite, commit_planned, plan_write
from lance_spark.table.writing.write import FragmentWriter

if TYPE_CHECKING:
    from lance_spark.table.writing.filled_columns import BackfilledSplit

NEW_COLUMNS = (WriteMode.CREATE, WriteMode.OVERWRITE)
"""Modes that give the table the columns of the rows."""

_NO_ROWS = np.empty(0, np.uint64)


@dataclass(frozen=True)
class PlainTarget(WriteTarget[Manifest]):
    """A plain table.

    Attributes:
        location: the branch to write to.
        evolved: all columns of the table after the commit, if the rows bring new ones.
        plan: how rows become files; None if none are written.
        bases: the base paths of the table, of which `target_bases` get the data files in turn; None for its root only.
    """

    location: TableLocation
    base_version: int | None
    identity: IdentityColumns = field(default_factory=IdentityColumns)
    evolved: LanceSchema | None = None
    plan: WritePlan | None = None
    job: str | None = None
    limits: FileLimits = field(default_factory=FileLimits)
    bases: Bases | None = None
    target_bases: tuple[str, ...] = ()
    _opened: Manifest | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, location: TableLocation, base: Manifest | None, evolved: LanceSchema | None = None) -> PlainTarget:
        """The target of the version `base`, None if there is no table.

        Args:
            evolved: all columns of the table after the commit, if the rows bring new ones.
        """
        if base is None:
            return cls(location, None)
        return cls(location, base.version, IdentityColumns.of_version(base), evolved, _opened=base)

    def __getstate__(self) -> dict[str, Any]:
        # Tasks open the version if they need it.
        return {name: value for name, value in self.__dict__.items() if name != "version"} | {"_opened": None}

    @property
    def uri(self) -> str:
        return self.location.uri

    @cached_property
    def version(self) -> Manifest:
        assert self.base_version is not None, "there is a table"
        return self._opened or self.location.at(self.base_version).manifest

    @property
    def lance_schema(self) -> LanceSchema:
        return self.evolved or self.version.schema

    @property
    def table_schema(self) -> LanceSchema:
        return self.evolved or self._plan().table_schema

    @property
    def table_properties(self) -> Mapping[str, str]:
        return {} if self.base_version is None else self.version.config

    @property
    def has_stable_row_ids(self) -> bool:
        return self.version.has_stable_row_ids

    @property
    def committed_nanos(self) -> int:
        return self.version.timestamp_nanos

    @property
    def read_schema(self) -> pa.Schema:
        base = self._evolved()
        return to_arrow_schema(with_blob_descriptors(base.schema, data_format(base), with_source=True))

    def at(self, version: Manifest) -> PlainTarget:
        identity = IdentityColumns.of_version(version)
        return replace(self, base_version=version.version, identity=identity, _opened=version)

    def numbered(self, version: int) -> Manifest:
        return self.location.at(version).manifest

    def newest(self) -> Manifest:
        return self.location.newest()

    def check_commits(self) -> None:
        if self.base_version is not None:
            check_writable(self.version.writer_flags, self.uri)
        self.location.history.check_commits()

    def splits(self, filter: Expr | None = None) -> list[Split]:
        return [Split(self.location, self._evolved())]

    def changed_splits(self, before: PlainTarget) -> list[Split]:
        return self.splits()

    def has_columns_of(self, other: PlainTarget) -> bool:
        return self.version.schema.fields == other.version.schema.fields

    def opener(self) -> Callable[[str | None], Split]:
        split = Split(self.location, self.version)
        return lambda _key: split

    def search(self, filter: Expr) -> RowSearch:
        return RowSearch(self.splits(), address_scan(self.location, self._evolved(), filter))

    def taking(
        self,
        columns: pa.Schema,
        limits: FileLimits | None = None,
        *,
        mode: WriteMode = WriteMode.APPEND,
        merge_schema: bool = False,
        file_format_version: str | None = None,
    ) -> PlainTarget:
        if mode is WriteMode.OVERWRITE_PARTITIONS:
            raise InvalidInputError(f"{self.uri} has no partitions; leave only_written_partitions out")
        self.check_commits()
        base = None if self.base_version is None else self._evolved()
        makes_columns = base is None or mode in NEW_COLUMNS
        identity = IdentityColumns() if makes_columns else self.identity
        evolves = merge_schema and mode is WriteMode.APPEND and base is not None
        plan = plan_write(
            base,
            columns,
            # Rows in the columns that the table has are planned as an append.
            mode=mode.value if makes_columns else APPEND,
            identity=identity,
            file_format_version=file_format_version,
            merge_schema=self.location.history if evolves else None,
        )
        return replace(
            self,
            identity=identity,
            evolved=self.evolved or plan.evolved,
            plan=plan,
            job=new_job(),
            limits=limits or FileLimits(),
        )

    def writer(self, task: int = 0, num_tasks: int = 1, blobs: OtherTables | None = None) -> RowWriter:
        plan = self._plan()
        fragments = FragmentWriter(
            self.location.store,
            plan.schema,
            file_version=plan.file_version,
            limits=self.limits,
            job=self.job,
            targets=() if self.bases is None else self.bases.targets(self.target_bases),
            blob_source=None if blobs is None else self._blob_source(plan, blobs),
        )
        return _PlainWriter(plan.pipeline.start(task, num_tasks), MovedRowWriter(fragments))

    def _blob_source(self, plan: WritePlan, blobs: OtherTables) -> BlobSource | None:
        """Finds the files of the blobs of this table and of others, and the objects that rows name."""
        if not any(has_blobs(field) for field in plan.schema.fields):
            return None
        uri, options = self.location.store.uri, self.location.storage_options
        if self.base_version is None:
            return objects_only(uri, options, blobs(options))
        return sources_in(self.location.bases(self.version), uri, options, blobs(options))

    def fitting(self, written: Sequence[WrittenSplit], planned: PlainTarget) -> Sequence[WrittenSplit]:
        if self.base_version == planned.base_version:
            return written
        current, before = self.version, planned.version
        check_columns_fit(current.schema, before.schema, self.uri, current.version)
        if not keeps_places(before, current):
            raise unfit(f"the file version or the base paths of {self.uri}", current.version)
        if self.evolved is not None and current.schema.fields != before.schema.fields:
            raise unfit(f"metadata of columns of {self.uri}, to which this one adds columns", current.version)
        return written

    def check_of(self, reads: Sequence[ReadRows]) -> NewerVersionCheck | None:
        if not reads or self.base_version is None:
            return None
        return check_of(self.location, reads, self.version.schema)

    def changes_nothing(self, mode: WriteMode, written: Sequence[WrittenSplit]) -> bool:
        if written or self.base_version is None or self.evolved is not None:
            return False
        return mode is WriteMode.APPEND or (mode is WriteMode.TRUNCATE and not len(self.version.fragments))

    def save(
        self,
        mode: WriteMode,
        written: Sequence[WrittenSplit],
        options: CommitOptions,
        check: NewerVersionCheck | None = None,
    ) -> Manifest:
        plan = self._plan()
        fragments = [item.fragment for item in _fragments(written)]
        base = None if self.base_version is None else self.version
        if base is not None and mode is WriteMode.TRUNCATE:
            schema = self.evolved or base.schema
            return commit_overwrite(self.location, base, fragments, schema, plan.file_version, options)
        if base is not None and check is not None:
            return self.change_rows({}, written, options, check=check)
        plan = replace(plan, evolved=self.evolved)
        return commit_planned(self.location, base, plan, fragments, mode.value, options)

    def change_rows(
        self,
        deleted: Mapping[str | None, UInt64Array],
        written: Sequence[WrittenSplit],
        options: CommitOptions,
        *,
        changed_fields: Sequence[FieldId] | None = None,
        check: NewerVersionCheck | None = None,
        columns: Sequence[BackfilledSplit] = (),
    ) -> Manifest:
        return commit_row_changes(
            self.location,
            self.version,
            rows_by_fragment(deleted.get(None, _NO_ROWS)),
            _fragments(written),
            options,
            changed_fields=changed_fields,
            check=check,
            evolved=self.evolved,
            columns=[item.fragment for item in columns],
        )

    def _matching(self, filter: Expr, before: Search | None) -> Search:
        version = self._evolved()
        return Search(version, matching_rows(self.location, version, filter, before))

    def _found(self, filter: Expr, matching: Mapping[str | None, UInt64Array]) -> Search:
        before = Search(self._evolved(), rows_by_fragment(matching.get(None, _NO_ROWS)))
        return self._matching(filter, before)

    def _replace(
        self,
        matching: Search,
        written: Sequence[WrittenSplit] | None,
        options: CommitOptions,
        *,
        predicate: str,
        check: NewerVersionCheck | None = None,
    ) -> Manifest:
        return commit_row_changes(
            self.location,
            self.version,
            matching.deleted,
            _fragments(written or ()),
            options,
            predicate=predicate,
            check=check,
            evolved=self.evolved,
        )

    def stores(self, written: Sequence[WrittenSplit], columns: Sequence[BackfilledSplit] = ()) -> list[ObjectStore]:
        return [self.location.store]

    def _plan(self) -> WritePlan:
        assert self.plan is not None, "rows are written"
        return self.plan

    def _evolved(self) -> Manifest:
        """The version with the columns that the table gets."""
        version = self.version
        return version if self.evolved is None else replace(version, schema=self.evolved)


class _PlainWriter(RowWriter):
    def __init__(self, rows: TaskRows, writer: MovedRowWriter) -> None:
        super().__init__(rows)
        self._writer = writer

    def _write(self, batch: pa.RecordBatch, origins: RowOrigins | None) -> None:
        self._writer.write(batch, None if origins is None else origins.addresses)

    def close(self) -> tuple[WrittenSplit, ...]:
        new = self._writer.close()
        return (WrittenSplit(tuple(new)),) if new else ()

    def abort(self) -> None:
        self._writer.abort()


def _fragments(written: Sequence[WrittenSplit]) -> list[NewFragment]:
    return [new for item in written for new in item.new]
