"""Zone maps that follow the data: ``lance.auto_zonemap`` in a table's config names columns, or is ``*``.

After each commit that leaves rows of these columns without a ZONEMAP, one more commit extends it. ``*`` stands for the
top-level columns whose values have a fixed width.
"""

from __future__ import annotations

import logging

import pyarrow.types as pt

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.index.builders.zone_map import ZoneMapBuilder
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.schema.projection import quoted
from lance_spark.table.bases import Bases
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.indexes.build import build_segment
from lance_spark.table.indexes.commit import replace_segments
from lance_spark.table.indexes.create import removing_on_failure
from lance_spark.table.indexes.definition import define, define_beside, find_column
from lance_spark.table.indexes.optimize import definition_of, merged_segment
from lance_spark.table.indexes.zone_setting import ALL_COLUMNS, AUTO_ZONEMAP, column_names, zone_setting
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.fragment_reuse import covered_fragments
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.manifests.manifest import Manifest

ZONEMAP = "ZONEMAP"

_MAX_ATTEMPTS = 3

_log = logging.getLogger(__name__)


def zone_columns(schema: LanceSchema, text: str) -> list[str]:
    """The columns of this schema, as paths, that `text` names and that can have zone maps.

    Raises:
        InvalidInputError: a name is empty.
    """
    if text.strip() != ALL_COLUMNS:
        return [name for name in column_names(text) if _problem(schema, name) is None]
    return [quoted((field.name,)) for field in schema.fields if not field.children and _is_fixed(field)]


def zone_problems(schema: LanceSchema, text: str) -> list[str]:
    """Why columns that `text` names cannot have zone maps, a sentence each. Raises as `zone_columns`."""
    names = [] if text.strip() == ALL_COLUMNS else column_names(text)
    return [problem for name in names if (problem := _problem(schema, name)) is not None]


def check_zone_columns(schema: LanceSchema, text: str | None) -> None:
    """Passes if columns of this schema that `text` names can have zone maps.

    Args:
        text: as in the config; None and nothing name no columns.

    Raises:
        InvalidInputError: a name is empty, or the type of a column has no zone maps.
        NotFoundError: no such column.
    """
    if text is not None and text.strip() not in ("", ALL_COLUMNS):
        for column in column_names(text):
            define_beside((), schema, column, ZONEMAP, None, {})


def _is_fixed(field: Field) -> bool:
    dtype = to_arrow_type(field)
    return ZoneMapBuilder.supports(dtype) and bool(pt.is_primitive(dtype) or pt.is_decimal(dtype))


def _problem(schema: LanceSchema, column: str) -> str | None:
    try:
        define_beside((), schema, column, ZONEMAP, None, {})
    except (InvalidInputError, NotFoundError) as error:
        return str(error)
    return None


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
    text = zone_setting(made, wanted)
    if text is None:
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
    segments = [
        index
        for index in parse_indices(manifest.index_section)
        if list(index.message.fields) == [field.id] and index.message.index_details.type_url.lower() == url
    ]
    return [index for index in segments if index.name == segments[0].name]


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
