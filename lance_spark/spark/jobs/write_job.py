"""One write of a Spark job: planned by the driver, files by the tasks, one commit by the driver.

A file that no commit names is invisible. A task removes its files when it fails; what tasks left that were killed, or
whose second attempt succeeded, carries the job's name and is removed when the job ends.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Thread

import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.errors import CommitStateUnknownError, IncompatibleConflictError, InvalidInputError, LanceError
from lance_spark.expr.nodes import Expr
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.field import LanceSchema
from lance_spark.spark.options import WriteOptions
from lance_spark.spark.types import from_spark_batch, table_types, with_comments, written_schema
from lance_spark.storage.base import ObjectStore
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.paths import new_job
from lance_spark.table.row_level.delete import Search, matching_rows
from lance_spark.table.row_level.moved_rows import NewFragment
from lance_spark.table.row_level.read_conflicts import ReadRows, check_of
from lance_spark.table.row_level.row_changes import GoneRows, commit_row_changes
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import (
    APPEND,
    CREATE,
    OVERWRITE,
    CommitOptions,
    WritePlan,
    commit_overwrite,
    commit_planned,
    plan_write,
)
from lance_spark.table.writing.write import FileLimits, remove_job_files, write_fragments

TRUNCATE = "truncate"
"""An overwrite that leaves the table its columns; an OVERWRITE gives it those of the new rows."""

REPLACE_WHERE = "replace_where"
"""The new rows come instead of those for which a filter is true."""

_ABORT_LOOKS = 6
"""How often the files of a failed job are looked for again, for those of tasks that were still running."""
_ABORT_WAIT = 0.5
"""Seconds between two looks."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class WriteJob:
    """What driver and tasks share; small, because every task gets it.

    Attributes:
        location: the branch to write to.
        mode: CREATE, APPEND, OVERWRITE, TRUNCATE or REPLACE_WHERE.
        plan: how rows become files; its base is left out.
        base_version: the version that the job builds on, None if there was no table.
        table_types: the columns of the rows, in the types in which they are written.
        job: names the files.
        replaced: which rows go, with REPLACE_WHERE.
    """

    location: TableLocation
    mode: str
    plan: WritePlan
    base_version: int | None
    table_types: pa.Schema
    limits: FileLimits
    commit_options: CommitOptions
    job: str
    replaced: Expr | None = None

    @classmethod
    def of(
        cls,
        location: TableLocation,
        base: Manifest | None,
        columns: StructType,
        mode: str,
        options: WriteOptions,
        *,
        config: Mapping[str, str] | None = None,
        replaced: Expr | None = None,
        like: pa.Schema | None = None,
        evolved: LanceSchema | None = None,
        from_query: bool = False,
    ) -> WriteJob:
        """The job that writes rows with `columns` into the table whose version is `base`.

        Args:
            config: entries that the table's config gets with the commit, if it replaces the rows.
            replaced: which rows go, with REPLACE_WHERE.
            like: columns of another table, whose types those of a new table get.
            evolved: all columns from then on, if the rows bring new ones; `base` shows them already.
            from_query: whether `columns` are those of a query; then columns that it makes are nullable, as in Spark.

        Raises:
            InvalidInputError: the columns do not fit the table.
            UnsupportedFeatureError: this release cannot write to the table, or not such columns.
        """
        location.history.check_commits()
        known = like if base is None or mode == CREATE else to_arrow_schema(base.schema)
        makes_columns = base is None or mode in (CREATE, OVERWRITE)
        if from_query and makes_columns:
            columns = columns.toNullable()
        _check_row_ids(base, options)
        types = table_types(
            written_schema(columns),
            known,
            options.column_properties,
            replaces=makes_columns,
            large=options.use_large_var_types,
        )
        source = RowSource(with_comments(types, columns) if mode in (CREATE, OVERWRITE) else types, iter(()))
        # What goes into the table's own columns is planned as an append.
        planned = APPEND if mode in (TRUNCATE, REPLACE_WHERE) else mode
        evolves = options.merge_schema and mode == APPEND and base is not None
        plan = plan_write(
            base,
            source,
            mode=planned,
            file_format_version=options.file_format_version,
            merge_schema=location.history if evolves else None,
        )
        return cls(
            location=location,
            mode=mode,
            plan=replace(plan, base=None, evolved=evolved or plan.evolved),
            base_version=None if base is None else base.version,
            table_types=types,
            limits=options.limits(base.config if base is not None and config is None else {}),
            commit_options=CommitOptions(
                message=options.commit_message, stable_row_ids=bool(options.enable_stable_row_ids), config=config
            ),
            job=new_job(),
            replaced=replaced,
        )

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[DataFragment]:
        """The new fragments of a task with the rows of `batches`, which are as Spark hands them over."""
        return write_fragments(
            (from_spark_batch(batch, self.table_types) for batch in batches),
            self.location.store,
            self.plan.schema,
            file_version=self.plan.file_version,
            limits=self.limits,
            convert=self.plan.conform,
            job=self.job,
        )

    def commit(
        self,
        fragments: Sequence[DataFragment],
        *,
        repeated: bool,
        gone: GoneRows | None = None,
        reads: Sequence[ReadRows] = (),
    ) -> Manifest | None:
        """The version with the rows of all tasks; None if there is nothing to change.

        Args:
            fragments: what the tasks wrote, in the order of the rows.
            repeated: whether a task ran more than once, and may have left files.
            gone: the rows that go, with REPLACE_WHERE, in the version that the job builds on; None if they are still
                to be found.
            reads: of an append, rows of the table that nobody else may have changed since they were read.

        Raises:
            CommitConflictError: another writer was first. Nothing of ours is visible, the files are gone.
            CommitStateUnknownError: the store never said; the version may be there, and the files stay.
        """
        base = None if self.base_version is None else self.location.at(self.base_version).manifest
        made = None if self._changes_nothing(base, fragments) else self._commit(base, fragments, gone, reads)
        if made is not None and base is not None and made.version == base.version:
            made = None
        if repeated:
            remove_job_files(self.location.store, self.job, keep=fragments)
        return made

    def _changes_nothing(self, base: Manifest | None, fragments: Sequence[DataFragment]) -> bool:
        if base is None or fragments:
            return False
        return self.plan.evolved is None and (
            self.mode == APPEND or (self.mode == TRUNCATE and not len(base.fragments))
        )

    def _commit(
        self,
        base: Manifest | None,
        fragments: Sequence[DataFragment],
        gone: GoneRows | None,
        reads: Sequence[ReadRows],
    ) -> Manifest:
        plan = replace(self.plan, base=base)
        try:
            if self.mode == TRUNCATE and base is not None:
                schema = self.plan.evolved or base.schema
                return commit_overwrite(self.location, base, fragments, schema, plan.file_version, self.commit_options)
            if self.replaced is not None and base is not None:
                known = None if gone is None else Search(self._shown(base), gone)
                return self._replace_rows(base, self.replaced, fragments, known)
            if reads and base is not None:
                return self._insert(base, fragments, reads)
            return commit_planned(self.location, plan, fragments, self.mode, self.commit_options)
        except CommitStateUnknownError:
            raise  # The version may be there, and then it needs the files.
        except LanceError:
            remove_job_files(self.location.store, self.job)
            raise

    def _insert(self, base: Manifest, fragments: Sequence[DataFragment], reads: Sequence[ReadRows]) -> Manifest:
        """Commits rows that were chosen by what the table holds."""
        new = [NewFragment(fragment) for fragment in fragments]
        check = check_of(self.location, reads, base.schema)
        return commit_row_changes(
            self.location, base, {}, new, self.commit_options, check=check, evolved=self.plan.evolved
        )

    def _replace_rows(
        self, base: Manifest, replaced: Expr, fragments: Sequence[DataFragment], known: Search | None
    ) -> Manifest:
        new = [NewFragment(fragment) for fragment in fragments]

        evolved = self.plan.evolved

        def attempt(version: Manifest) -> Manifest:
            if evolved is not None and version.schema.fields != base.schema.fields:
                raise IncompatibleConflictError(
                    f"another writer has changed the columns of {self.location.uri}, and so does this one. Read the "
                    "new version and decide anew",
                    ours=REPLACE_WHERE,
                    table_version=version.version,
                )
            gone = matching_rows(self.location, self._shown(version), replaced, known)
            return commit_row_changes(
                self.location, version, gone, new, self.commit_options, predicate=str(replaced), evolved=evolved
            )

        return retry_on_conflict(attempt, base, self.location.newest, self.commit_options.policy)

    def read_version(self) -> Manifest | None:
        """The version that the job builds on, with the columns that its rows bring; None if there was no table."""
        return None if self.base_version is None else self._shown(self.location.at(self.base_version).manifest)

    def _shown(self, version: Manifest) -> Manifest:
        return version if self.plan.evolved is None else replace(version, schema=self.plan.evolved)

    def abort(self, *, all_tasks_told: bool) -> None:
        """Removes what the tasks have written.

        Args:
            all_tasks_told: whether every task had come to its end. Then Spark aborts after a commit that failed, and
                whether the files may go was decided by that commit, which alone knows if its version could be there.
        """
        if not all_tasks_told:
            abandon(self.location.store, self.job)


def _check_row_ids(base: Manifest | None, options: WriteOptions) -> None:
    if base is None or options.enable_stable_row_ids in (None, base.has_stable_row_ids):
        return
    has = "has them" if base.has_stable_row_ids else "has none"
    raise InvalidInputError(
        f"option enable_stable_row_ids: stable row ids are chosen when a table is created, and this one {has}; leave "
        "the option out, or DROP the table first"
    )


def abandon(store: ObjectStore, job: str) -> None:
    """Removes the data files of a job that failed, without waiting for tasks that may still run.

    Spark may still be killing other tasks of the job, which can finish a file after this. So a thread looks again for
    a few seconds. A process that ends before leaves such a file to VACUUM; no version ever names it.
    """
    remove_job_files(store, job)
    Thread(target=_remove_late_files, args=(store, job), name=f"lance clean-up of job {job}", daemon=True).start()


def _remove_late_files(store: ObjectStore, job: str) -> None:
    try:
        for _ in range(_ABORT_LOOKS):
            time.sleep(_ABORT_WAIT)
            remove_job_files(store, job)
    except LanceError as error:
        # The user has heard of the failed write already; VACUUM removes what is left.
        _LOG.warning("files of the failed write job %s may be left for VACUUM: %s", job, error)
