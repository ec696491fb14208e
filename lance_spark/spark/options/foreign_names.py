"""Options of other table formats, of Spark's file formats and of the other connector: refused, each with what to
write instead."""

from __future__ import annotations

from collections.abc import Mapping

from lance_spark.errors import InvalidInputError

CHANGES = "SELECT * FROM lance_changes('t', first, last) reads what versions have changed"

_OF_THE_TABLE = "leave it out: a table knows its files and columns"
_ONE_TEXT = "write commit_message, a text that is kept with the version"
_RENAMED = {
    "maxrecordsperfile": "max_row_per_file",
    "target-file-size-bytes": "max_bytes_per_file",
    "overwrite-mode": "partitionOverwriteMode",
    "distribution-mode": "distribution",
    "write.distribution-mode": "distribution",
    "merge-schema": "mergeSchema",
    "snapshot-id": "version, a number from 1 on",
    "as-of-timestamp": "timestamp, such as 2026-11-21T10:00:00+00:00",
    "split-size": "target_partition_bytes",
    "batch-size": "batch_size",
    "compression": "<column>.lance.compression",
    "compression-codec": "<column>.lance.compression",
    "stream-from-timestamp": "startingTimestamp",
    "streaming-skip-delete-snapshots": "ignoreDeletes",
    "streaming-skip-overwrite-snapshots": "skipChangeCommits",
    "streaming-max-files-per-micro-batch": "maxFilesPerTrigger",
    "streaming-max-rows-per-micro-batch": "maxRowsPerTrigger",
}
_OF_DELTA = {
    "replacewhere": "write INSERT INTO t REPLACE WHERE condition SELECT ..., or df.writeTo('t').overwrite(condition)",
    "overwriteschema": "leave it out: save(path) and saveAsTable with mode('overwrite') replace the columns",
    "datachange": "leave it out: OPTIMIZE is the rewrite that changes no rows",
    "usermetadata": _ONE_TEXT,
    "optimizewrite": "leave it out: the table property lance.auto_compact joins small files after writes",
    "autocompact": "leave it out: the table property lance.auto_compact joins small files after writes",
    "clusterbyauto": "name the columns: ALTER TABLE t CLUSTER BY (a, b)",
    "endingversion": CHANGES,
    "endingtimestamp": CHANGES,
    "ignorefiledeletion": "write ignoreDeletes, or skipChangeCommits, which leaves out versions that change rows",
    "schematrackinglocation": "write newColumns, which says what a stream does with new columns",
    "schemalocation": "write newColumns, which says what a stream does with new columns",
    "excluderegex": "leave it out, and filter the rows",
}
_OF_ICEBERG = {
    "write-format": "leave it out: file_format_version chooses the version of Lance files",
    "check-nullability": "leave it out: rows are always checked",
    "check-ordering": "leave it out: columns are found by their names",
    "fanout-enabled": "leave it out: a task writes to several partitions at a time",
    "isolation-level": "set the table property isolation-level to serializable or snapshot",
    "use-table-distribution-and-ordering": "write distribution, with the value none to keep rows where they are",
    "output-spec-id": "leave it out: rows are partitioned by the newest fields",
    "delete-granularity": "leave it out: a fragment has one deletion file",
    "start-snapshot-id": CHANGES,
    "end-snapshot-id": CHANGES,
    "start-timestamp": CHANGES,
    "end-timestamp": CHANGES,
    "lookback": "write target_partition_bytes, the size up to which fragments share a task",
    "file-open-cost": "write target_partition_bytes, the size up to which fragments share a task",
    "vectorization-enabled": "leave it out: rows are always read in batches",
    "locality": "leave it out: files are read from their store",
}
_OF_FILES = dict.fromkeys(
    (
        *("inferschema", "header", "basepath", "pathglobfilter", "recursivefilelookup"),
        *("modifiedbefore", "modifiedafter", "ignorecorruptfiles", "ignoremissingfiles"),
    ),
    _OF_THE_TABLE,
)
OF_JVM_CONNECTOR: Mapping[str, str] = {
    "block_size": "leave it out: what is read at a time follows from the file",
    "index_cache_size": "leave it out: LANCE_SPARK_CACHE_BYTES bounds what a process keeps",
    "metadata_cache_size": "leave it out: LANCE_SPARK_CACHE_BYTES bounds what a process keeps",
    "write_mode": "leave it out: the mode of the write says it, mode('append') or mode('overwrite')",
}
"""Options of the other connector for Spark that do not apply here."""

OF_OTHERS: Mapping[str, str] = {
    **{name: f"write {ours}" for name, ours in _RENAMED.items()},
    **_OF_DELTA,
    **_OF_ICEBERG,
    **_OF_FILES,
    **OF_JVM_CONNECTOR,
}
"""Advice by the name of an option in lower case: the text to write in its place, or to leave it out."""

_PREFIXES = {"snapshot-property.": _ONE_TEXT}


def refuse_foreign_name(name: str) -> None:
    """Passes if `name` is not an option of somebody else.

    Raises:
        InvalidInputError: it is; the message says what to write instead.
    """
    folded = name.lower()
    instead = OF_OTHERS.get(folded) or next(
        (text for prefix, text in _PREFIXES.items() if folded.startswith(prefix)), None
    )
    if instead is not None:
        raise InvalidInputError(f"there is no option {name}; {instead}")
