"""`upgrade`: rewrites a table in a newer file version. The one command that changes a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lance_spark.cli.opening import Target
from lance_spark.partitioned.maintenance.upgrade import commit_partition_upgrade
from lance_spark.table.maintenance.upgrade import commit_upgrade, upgrade_version


def upgrade_target(target: Target, to: str, show: Callable[[str], None]) -> dict[str, Any]:
    """Upgrades the newest version; keys as in docs/command-line.md.

    Args:
        show: shows how far the upgrade is.

    Raises: as `Dataset.upgrade_files`.
    """
    version = upgrade_version(to)
    num_done = 0

    def progress(done: int, total: int) -> None:
        nonlocal num_done
        num_done += 1
        show(f"fragment {done} of {total}")

    if target.partitioned is None:
        before = target.dataset.version
        made = commit_upgrade(target.dataset.location, target.dataset.manifest, version, progress=progress).version
    else:
        before = target.partitioned.version
        made = commit_partition_upgrade(target.partitioned, version, progress=progress).version
    show("")
    return {
        "uri": target.uri,
        "file_version": version.value,
        "version": made,
        "changed": made != before,
        "fragments_rewritten": num_done,
    }


def upgrade_line(document: dict[str, Any]) -> str:
    """The result in one line."""
    if not document["changed"]:
        return f"version {document['version']}: all files are of version {document['file_version']} or newer"
    return (
        f"version {document['version']}: {document['fragments_rewritten']} fragments rewritten in file version "
        f"{document['file_version']}"
    )
