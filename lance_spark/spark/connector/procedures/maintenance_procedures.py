"""Maintenance procedures: compaction, removal of old versions and of orphan files, newer file versions."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
from pyspark.sql.types import BooleanType, LongType, StringType

from lance_spark.errors import InvalidInputError
from lance_spark.expr.sql.parse import parse
from lance_spark.spark.connector.channel.tasks import messages
from lance_spark.spark.connector.procedures.procedure_types import (
    FLAG,
    NUMBER,
    TABLE,
    TEXT,
    TEXTS,
    WHOLE,
    Arguments,
    Invocation,
    Parameter,
    Procedure,
    Tasks,
)
from lance_spark.spark.connector.scan.local_rows import LocalRows, row_type
from lance_spark.spark.jobs.compaction_job import AnyDataset, CompactionJob, CompactionWork
from lance_spark.spark.jobs.upgrade_job import UpgradeJob
from lance_spark.table.cleanup.cleanup import CleanupStats
from lance_spark.table.cleanup.policy import SAFETY_WINDOW, CleanupPolicy
from lance_spark.table.maintenance.clustering.cluster import clustering_options
from lance_spark.table.maintenance.clustering.layout import Layout, configured_layout
from lance_spark.table.maintenance.compaction_estimate import CompactionEstimate
from lance_spark.table.maintenance.compaction_options import CompactionOptions
from lance_spark.table.maintenance.upgrade import upgrade_version

_UPGRADED = row_type(version=LongType(), file_version=StringType(), fragments_rewritten=LongType())
_OPTIMIZED = row_type(
    version=LongType(),
    fragments_removed=LongType(),
    fragments_added=LongType(),
    files_removed=LongType(),
    files_added=LongType(),
    small_fragments=LongType(),
    rows_rewritten=LongType(),
    deleted_rows_removed=LongType(),
    bytes_rewritten=LongType(),
    dry_run=BooleanType(),
    kept_fragments=LongType(),
)
_CLEANED = row_type(
    versions=LongType(),
    data_files=LongType(),
    deletion_files=LongType(),
    index_files=LongType(),
    transaction_files=LongType(),
    staged_files=LongType(),
    bytes_removed=LongType(),
    dry_run=BooleanType(),
)
_MESSAGE = Parameter("commit_message", TEXT, "kept with the version; none if it is left out")
_COMPACTION = (
    TABLE,
    Parameter("target_rows_per_fragment", WHOLE, "fragments with fewer rows are joined; 1048576 if it is left out"),
    Parameter("max_bytes_per_file", WHOLE, "begins a new fragment earlier; 90 GiB if it is left out"),
    Parameter(
        "materialize_deletions",
        FLAG,
        "whether large fragments are rewritten to shed deleted rows; true if it is left out",
    ),
    Parameter(
        "materialize_deletions_threshold",
        NUMBER,
        "which part of the rows has to be deleted for that; 0.1 if it is left out",
    ),
    Parameter("batch_size", WHOLE, "rows that are read at a time; 8192 if it is left out"),
    _MESSAGE,
    Parameter(
        "where",
        TEXT,
        "only partitions that may hold rows for which this is true; to cluster a table without partitions, only "
        "fragments with such a row; all if it is left out",
    ),
    Parameter(
        "defer_index_remap",
        FLAG,
        "records where rows moved, and OPTIMIZE INDEX brings indexes up to date; false if it is left out",
    ),
    Parameter("dry_run", FLAG, "rewrites nothing, only reports what it would rewrite; false if it is left out"),
    Parameter(
        "zorder_by",
        TEXTS,
        "sorts the rows by a Z-order curve through these columns; as the table says if it is left out",
    ),
    Parameter(
        "sort_by", TEXTS, "sorts the rows by these columns, each may end with DESC; as the table says if it is left out"
    ),
)


@dataclass(frozen=True)
class CompactTask:
    """Runs compaction tasks; returns the result of each as a message."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Pickled by the driver of this very procedure.
        work: list[CompactionWork] = [pickle.loads(item.as_py()) for batch in batches for item in batch.column(0)]
        results = [item.run() for item in work]
        yield messages(results)


def _optimize(call: Invocation) -> LocalRows | Tasks:
    table, given = call.table(), call.arguments
    where = given.text("where")
    options = CompactionOptions.of(
        table.properties,
        target_rows_per_fragment=given.integer("target_rows_per_fragment"),
        max_bytes_per_file=given.integer("max_bytes_per_file"),
        materialize_deletions=given.flag("materialize_deletions"),
        materialize_deletions_threshold=given.number("materialize_deletions_threshold"),
        batch_size=given.integer("batch_size"),
        defer_index_remap=given.flag("defer_index_remap"),
    )
    dry_run = bool(given.flag("dry_run"))
    if not dry_run:
        table.versions_location.history.check_commits()
    layout = _layout(table, given)
    if layout is not None:
        if given.flag("defer_index_remap"):
            raise InvalidInputError(
                "indexes cannot follow later when rows get another order; leave defer_index_remap out"
            )
        options = clustering_options(options)
    elif where is not None and not table.split_columns:
        raise InvalidInputError("where chooses partitions, and the table has none")
    chosen = None if where is None else parse(where, time_zone=call.session.time_zone)
    job, work, estimate = CompactionJob(table, given.text("commit_message")).planned(options, chosen, layout)
    if dry_run or not work:
        return _optimized(table.version, estimate, dry_run=dry_run)
    return Tasks(CompactTask(), [pickle.dumps(item) for item in work], pickle.dumps(job))


def _layout(table: AnyDataset, given: Arguments) -> Layout | None:
    """The order that the rows get: that of the call, else a Hilbert curve through the table's clustering columns."""
    zorder, sort = given.texts("zorder_by"), given.texts("sort_by")
    if zorder and sort:
        raise InvalidInputError("give one of zorder_by and sort_by")
    if zorder or sort:
        return Layout.of(table.lance_schema, zorder or sort, "zorder" if zorder else "sort")
    return configured_layout(table.lance_schema, table.properties)


def _commit_optimized(state: bytes, results: Sequence[bytes]) -> LocalRows:
    job: CompactionJob = pickle.loads(state)  # Pickled by this package, on this driver.
    return _optimized(*job.commit(results))


def _optimized(version: int, done: CompactionEstimate, *, dry_run: bool = False) -> LocalRows:
    row = (
        version,
        done.fragments_removed,
        done.fragments_added,
        done.files_removed,
        done.files_added,
        done.small_fragments,
        done.rows_rewritten,
        done.deleted_rows_removed,
        done.bytes_rewritten,
        dry_run,
        done.kept_fragments,
    )
    return LocalRows.of(_OPTIMIZED, [row])


def _vacuum(call: Invocation) -> LocalRows:
    table, given = call.table(), call.arguments
    before, moment, age = given.integer("before_version"), given.moment("before_timestamp_millis"), given.age("days")
    if sum(item is not None for item in (before, moment, age)) > 1:
        raise InvalidInputError("give one of before_version, before_timestamp_millis and days")
    older_than = timedelta(0) if before is not None else moment or age
    checks_tags = given.flag("error_if_tagged_old_versions")
    policy = CleanupPolicy(
        older_than=older_than,
        keep_versions=given.integer("keep_versions"),
        delete_unverified=bool(given.flag("delete_unverified")),
        error_if_tagged_old_versions=True if checks_tags is None else checks_tags,
        dry_run=bool(given.flag("dry_run")),
    )
    return _cleaned(table.clean_up(policy, before), policy.dry_run)


def _remove_orphans(call: Invocation) -> LocalRows:
    age, dry_run = call.arguments.age("days"), bool(call.arguments.flag("dry_run"))
    stats = call.table().remove_orphans(SAFETY_WINDOW if age is None else age, dry_run=dry_run)
    return _cleaned(stats, dry_run)


def _cleaned(stats: CleanupStats, dry_run: bool) -> LocalRows:
    row = (
        len(stats.versions),
        stats.data_files,
        stats.deletion_files,
        stats.index_files,
        stats.transaction_files,
        stats.staged_files,
        stats.bytes_removed,
        dry_run,
    )
    return LocalRows.of(_CLEANED, [row])


def _upgrade(call: Invocation) -> LocalRows | Tasks:
    table = call.table()
    version = upgrade_version(call.arguments.required("version"))
    table.versions_location.history.check_commits()
    job = UpgradeJob(table, version, call.arguments.text("commit_message"))
    work = job.work()
    if not work:
        # Only the version that the table names may be older.
        return _upgraded(job, ())
    return Tasks(CompactTask(), [pickle.dumps(item) for item in work], pickle.dumps(job))


def _commit_upgrade(state: bytes, results: Sequence[bytes]) -> LocalRows:
    return _upgraded(pickle.loads(state), results)  # Pickled by this package, on this driver.


def _upgraded(job: UpgradeJob, results: Sequence[bytes]) -> LocalRows:
    return LocalRows.of(_UPGRADED, [(job.commit(results), job.file_version.value, len(results))])


_DRY_RUN = Parameter("dry_run", FLAG, "removes nothing, only reports what it would remove; false if it is left out")

PROCEDURES = (
    *(
        Procedure(
            name,
            "Joins small fragments and sheds deleted rows, as a job over the cluster; what is left out is as the "
            "table's properties lance.compaction.* say. Sorts the rows by the columns that are named, else by the "
            "table's clustering columns.",
            _COMPACTION,
            _optimize,
            finish=_commit_optimized,
            changes_table=True,
        )
        for name in ("optimize", "compact")
    ),
    Procedure(
        "vacuum",
        "Removes old versions, and the files that no version needs any more.",
        (
            TABLE,
            Parameter("before_version", WHOLE, "removes versions before this one; by their age if it is left out"),
            Parameter(
                "before_timestamp_millis", WHOLE, "removes versions from before this moment; by days if it is left out"
            ),
            Parameter("days", NUMBER, "removes older versions; 14 if it is left out and nothing else chooses versions"),
            Parameter(
                "keep_versions", WHOLE, "keeps this many of the newest versions; the newest one if it is left out"
            ),
            Parameter(
                "delete_unverified",
                FLAG,
                "removes files that no version ever named whatever their age; after 7 days if it is left out",
            ),
            Parameter(
                "error_if_tagged_old_versions",
                FLAG,
                "refuses if tagged versions would be removed; true if it is left out",
            ),
            _DRY_RUN,
        ),
        _vacuum,
        changes_table=True,
    ),
    Procedure(
        "remove_orphans",
        "Removes files that no version names, which writers that were killed have left.",
        (TABLE, Parameter("days", NUMBER, "removes files that are older; 7 if it is left out"), _DRY_RUN),
        _remove_orphans,
    ),
    Procedure(
        "upgrade_files",
        "Rewrites the files of a table in a newer file version, as a job over the cluster.",
        (
            TABLE,
            Parameter("version", TEXT, "the file version: 2.0, 2.1 or 2.2", required=True),
            _MESSAGE,
        ),
        _upgrade,
        finish=_commit_upgrade,
        changes_table=True,
    ),
)
