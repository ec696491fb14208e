"""`upgrade_files`: rewrites a table in a newer file version, one task for each fragment."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

from pyspark.sql.types import LongType, StringType

from lance_spark.spark.connector.procedures.maintenance_procedures import CompactTask
from lance_spark.spark.connector.procedures.procedure_types import TABLE, TEXT, Invocation, Parameter, Procedure, Tasks
from lance_spark.spark.connector.scan.local_rows import LocalRows, row_type
from lance_spark.spark.jobs.upgrade_job import UpgradeJob
from lance_spark.table.maintenance.upgrade import upgrade_version

_UPGRADED = row_type(version=LongType(), file_version=StringType(), fragments_rewritten=LongType())


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


def _commit(state: bytes, results: Sequence[bytes]) -> LocalRows:
    return _upgraded(pickle.loads(state), results)  # Pickled by this package, on this driver.


def _upgraded(job: UpgradeJob, results: Sequence[bytes]) -> LocalRows:
    return LocalRows.of(_UPGRADED, [(job.commit(results), job.file_version.value, len(results))])


PROCEDURES = (
    Procedure(
        "upgrade_files",
        "Rewrites the files of a table in a newer file version, as a job over the cluster.",
        (
            TABLE,
            Parameter("version", TEXT, "the file version: 2.0, 2.1 or 2.2", required=True),
            Parameter("commit_message", TEXT, "kept with the version"),
        ),
        _upgrade,
        finish=_commit,
        changes_table=True,
    ),
)
