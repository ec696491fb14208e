"""Zone maps that follow the data: ``lance.auto_zonemap`` in a table's config names columns, or is ``*``.

After each commit that leaves rows of these columns without a ZONEMAP, one more commit extends it. ``*`` stands for the
top-level columns whose values have a fixed width.
"""

from __future__ import annotations

import logging

from lance_spark.index.builders.zone_map import ZoneMapBuilder
from lance_spark.table.bases import Bases
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.indexes.build import build_segment
from lance_spark.table.indexes.commit import replace_segments
from lance_spark.table.indexes.create import removing_on_failure
from lance_spark.table.indexes.definition import define, find_column
from lance_spark.table.indexes.optimize import definition_of, merged_segment
from lance_spark.table.indexes.zone_columns import AUTO_ZONEMAP, ZONEMAP, zone_columns, zone_problems
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.fragment_reuse import covered_fragments
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.paths import is_detached

_MAX_ATTEMPTS = 3

_log = logging.getLogger(__name__)


def extend_zone_maps(table: TableLocation, made: Manifest, wanted: str | None = None) -> Manifest:
    """The version whose zone maps cover all rows of the columns that the config of `made` names; `made` if they do.

    Columns that the table does not have any more, or that cannot have a zone map, are logged and left out: a column may
    be dropped or renamed after the config was set.

    Args:
        wanted: the columns; None is what the config says.

    Raises:
        InvalidInputError: the config is no list of columns.
        CommitConflictError: other writers were always first. Nothing was changed.
        StorageError: the store failed. Nothing was changed.
    """
    text = made.config.get(AUTO_ZONEMAP, "") if wanted is None else wanted
    if not text.strip() or is_detached(made.version):
        return made
    bases = table.bases(made)
    for problem in zone_problems(made.schema, text):
        _log.warning("no zone map of a column that %s of %s names: %s", AUTO_ZONEMAP, table.uri, problem)
    if not any(_uncovered(made, bases, column) for column in zone_columns(made.schema, text)):
        return made

    def attempt(base: Manifest) -> Manifest:
        new: list[IndexMetadata] = []
        removed: list[IndexMetadata] = []
        with removing_on_failure(table, new):
            for column in zone_columns(base.schema, text):
                if _uncovered(base, table.bases(base), column):
                    replaced = _segments(base, column)[-1:]
                    new.append(_extended(table, base, column, replaced))
                    removed += replaced
            return replace_segments(table, base, new, removed) if new else base

    return retry_on_conflict(attempt, table.newest(), table.newest, max_attempts=_MAX_ATTEMPTS)


def _segments(manifest: Manifest, column: str) -> list[IndexMetadata]:
    """The segments of the first ZONEMAP over a column."""
    field = find_column(manifest.schema, column)[-1]
    url = ZoneMapBuilder.index_type.type_url.lower()
    found = [
        index
        for index in parse_indices(manifest.index_section)
        if list(index.message.fields) == [field.id] and index.message.index_details.type_url.lower() == url
    ]
    return [index for index in found if index.name == found[0].name]


def _uncovered(manifest: Manifest, bases: Bases, column: str) -> set[int]:
    """The fragments without zones."""
    live = {message.id for message in manifest.fragments.messages}
    covered = covered_fragments(parse_indices(manifest.index_section), bases)
    return live.difference(*(covered(segment) for segment in _segments(manifest, column)))


def _extended(table: TableLocation, base: Manifest, column: str, segments: list[IndexMetadata]) -> IndexMetadata:
    """A segment over the fragments without zones and those of `segments`."""
    uncovered = _uncovered(base, table.bases(base), column)
    definition = definition_of(base.schema, segments, table.bases(base)) if segments else None
    if definition is not None:
        return merged_segment(table, base, definition, segments, uncovered)
    return build_segment(table, base, define(base, column, ZONEMAP, None, {}), uncovered)
