"""`versions`: the history of a table, from manifests alone."""

from __future__ import annotations

from typing import Any

from lance_spark.cli.opening import Target
from lance_spark.partitioned.history import history


def describe_versions(target: Target, limit: int | None) -> dict[str, Any]:
    """The versions, oldest first; keys as in docs/command-line.md."""
    partitioned = target.partitioned
    found = target.dataset.versions(limit) if partitioned is None else history(partitioned, limit)[::-1]
    return {
        "uri": target.uri,
        "branch": target.dataset.branch,
        "versions": [
            {
                "version": entry.version,
                "timestamp": entry.timestamp.isoformat(),
                "operation": entry.operation,
                "rows": None if entry.content is None else entry.content.num_rows,
                "deleted_rows": None if entry.content is None else entry.content.num_deleted_rows,
                "fragments": None if entry.content is None else entry.content.num_fragments,
                "bytes": None if entry.content is None else entry.content.num_bytes,
                "message": entry.message,
                "writer": None if entry.writer is None else f"{entry.writer.library} {entry.writer.version}",
            }
            for entry in found
        ],
    }


def version_rows(document: dict[str, Any]) -> list[list[object]]:
    """The lines of the table that is printed, titles first."""
    keys = ["version", "timestamp", "operation", "rows", "deleted_rows", "fragments", "bytes", "message"]
    return [list(keys), *([entry[key] for key in keys] for entry in document["versions"])]
