"""Cleaning up after commits to partitioned tables whose properties ask for it (``lance.auto_cleanup.*``)."""

from __future__ import annotations

import logging
from dataclasses import replace

from lance_spark.errors import LanceError
from lance_spark.partitioned.maintenance.vacuum import vacuum
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.table.cleanup.auto_cleanup import policy_after

_log = logging.getLogger(__name__)


def clean_up_after(made: PartitionedTable) -> None:
    """Cleans up if the version `made` is one after which the properties ask for it. Failures are only logged."""
    try:
        policy = policy_after(made.version, made.properties)
        if policy is None:
            return
        stats = vacuum(made, replace(policy, error_if_tagged_old_versions=False))
    except LanceError as error:
        _log.warning("version %d of %s is committed; cleaning up after it failed: %s", made.version, made.root, error)
        return
    _log.info("cleaned up after version %d of %s: %s", made.version, made.root, stats.total)
