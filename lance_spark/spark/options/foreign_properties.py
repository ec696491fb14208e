"""Table properties of other formats, which would be kept without any effect: refused, each with what to set instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lance_spark.errors import InvalidInputError

_CLEANUP = "set lance.auto_cleanup.interval and lance.auto_cleanup.older_than, or run VACUUM"
_ISOLATION = "set isolation-level to serializable or snapshot"
_DELETION_FILES = "leave it out: changed rows are marked in deletion files, always"
_COMPRESSION = "set <column>.lance.compression"
_BOUNDS = "set lance.auto_zonemap to the columns"

_INSTEAD: Mapping[str, str] = {
    "delta.enablechangedatafeed": "leave it out: what has changed can always be read; set enable_stable_row_ids when "
    "the table is made, to see updates as updates",
    "delta.columnmapping.mode": "leave it out: columns are renamed and dropped in every table",
    "delta.enabledeletionvectors": _DELETION_FILES,
    "delta.enabletypewidening": "leave it out: columns are widened in every table",
    "delta.deletedfileretentionduration": _CLEANUP,
    "delta.logretentionduration": _CLEANUP,
    "delta.autooptimize.autocompact": "set lance.auto_compact",
    "delta.autooptimize.optimizewrite": "set lance.auto_compact",
    "delta.isolationlevel": _ISOLATION,
    "delta.dataskippingnumindexedcols": _BOUNDS,
    "delta.dataskippingstatscolumns": _BOUNDS,
    "delta.appendonly": "no table refuses changes of its rows; use the rights of the store",
    "delta.targetfilesize": "set max_bytes_per_file",
    "format-version": "leave it out; file_format_version is that of the data files",
    "gc.enabled": "leave it out: nothing is removed unless lance.auto_cleanup.interval is set",
    **dict.fromkeys((f"write.{verb}.isolation-level" for verb in ("delete", "update", "merge")), _ISOLATION),
    "write.target-file-size-bytes": "set max_bytes_per_file",
    "write.distribution-mode": "set distribution",
    "write.format.default": "leave it out: file_format_version chooses the version of Lance files",
    "write.parquet.compression-codec": _COMPRESSION,
    "parquet.compression": _COMPRESSION,
    "parquet.compress": _COMPRESSION,
    "orc.compress": _COMPRESSION,
}
"""Advice by the name of a property in lower case."""

_PREFIXES = {
    "delta.constraints.": "write ALTER TABLE t ADD CONSTRAINT",
    "delta.": "tables here have no properties of Delta Lake",
    **dict.fromkeys(("write.delete.", "write.update.", "write.merge."), _DELETION_FILES),
    "write.metadata.metrics.": _BOUNDS,
    "write.metadata.": _CLEANUP,
    **dict.fromkeys(
        ("write.parquet.", "write.orc.", "write.avro.", "write.spark.", "write.object-storage.", "write.data."),
        "tables here have no properties of Iceberg",
    ),
    "history.expire.": _CLEANUP,
    **dict.fromkeys(
        ("read.split.", "read.parquet.", "commit.retry.", "commit.manifest."),
        "tables here have no properties of Iceberg",
    ),
}


def refuse_foreign_properties(names: Iterable[str]) -> None:
    """Passes if none of the names is a property of Delta Lake, Iceberg or a file format.

    Raises:
        InvalidInputError: one is; the message says what to set instead.
    """
    for name in names:
        folded = name.lower()
        instead = _INSTEAD.get(folded)
        prefix = next((start for start in _PREFIXES if folded.startswith(start)), None)
        if instead is None and prefix is not None:
            instead = _PREFIXES[prefix]
        if instead is not None:
            raise InvalidInputError(f"property {name} is of another table format and would have no effect; {instead}")
