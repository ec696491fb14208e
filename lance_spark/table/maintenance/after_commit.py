"""After-commit hooks of a table."""

from __future__ import annotations

import logging
from functools import partial

from lance_spark.errors import LanceError
from lance_spark.table.cleanup.auto_cleanup import clean_up_after
from lance_spark.table.indexes.zone_setting import zone_setting
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.compaction_setting import names_compaction
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base import OperationKind

_log = logging.getLogger(__name__)


def zoned(table: TableLocation, zone_maps: str | None) -> TableLocation:
    """The table to commit to so that `maintain_after` builds zone maps of these columns; None for what its config says.

    Args:
        zone_maps: columns that have passed `check_zone_columns`.
    """
    return table if zone_maps is None else table.followed_by(partial(maintain_after, zone_maps=zone_maps))


def maintain_after(table: TableLocation, made: Manifest, kind: OperationKind, *, zone_maps: str | None = None) -> None:
    """Maintains a table after the commit of version `made`, by its config: zone maps, a compaction, then a clean-up.

    Args:
        zone_maps: the columns that get zone maps instead of those in the config.

    Failures are logged, never raised.
    """
    newest = made
    try:
        if zone_setting(made, zone_maps) is not None:
            from lance_spark.table.indexes.auto_zonemap import extend_zone_maps

            newest = extend_zone_maps(table, made, zone_maps)
    except LanceError as error:
        _log.warning("version %d of %s is committed; zone maps are not extended: %s", made.version, table.uri, error)
    if names_compaction(made.config):
        from lance_spark.table.maintenance.auto_compaction import compact_after

        compact_after(table, newest, kind)
    clean_up_after(table, made, kind)
