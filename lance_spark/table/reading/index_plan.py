"""Plan of a scan's filter by the scalar indexes of a version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyroaring

from lance_spark._proto import table_pb2
from lance_spark.errors import CorruptFileError, LanceError
from lance_spark.expr.json_path.jsonb import Step
from lance_spark.expr.nodes import Expr, referenced_columns
from lance_spark.index.answers import Answer
from lance_spark.index.base import ScalarIndex
from lance_spark.index.files import IndexFiles
from lance_spark.index.fragment_reuse import FragmentReuse
from lance_spark.index.json_index import JSON_URL, JsonTarget
from lance_spark.index.outline import Outline, TableColumns, TableRows
from lance_spark.index.planner import IndexQuery, Plan, candidates
from lance_spark.index.registry import index_type_of
from lance_spark.index.row_set import RowSet
from lance_spark.index.segments import Segment, warn_unused
from lance_spark.schema.field import LanceSchema
from lance_spark.storage.cache import cached_part
from lance_spark.table.bases import Bases
from lance_spark.table.manifests.fragment_reuse import fragment_reuse
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.system_columns import ROW_ID, NamedRows, named_rows
from lance_spark.table.rows.fragment import BaseId, FragmentList
from lance_spark.table.rows.row_address import UInt64Array, split_addresses
from lance_spark.table.rows.row_id_places import RowIdPlaces, row_ids_of

_BYTES_PER_FRAGMENT = 512
"""About what is kept of each."""


def index_plan(scan: Scan, manifest: Manifest) -> Plan:
    """Plan of a scan's filter by the indexes of a version; empty if there is no filter or no usable index.

    A filter that names rows by their ids or addresses is answered without an index. Indexes are never needed: a
    damaged one is logged, and its rows are scanned.
    """
    if scan.filter is None:
        return Plan()
    named = named_rows(scan.filter, scan.schema)
    found = None if named is None else _found_rows(named, scan, manifest)
    if found is not None:
        return Plan(found)
    return _asked_indexes(scan, scan.filter, manifest) if manifest.index_section else Plan()


def _found_rows(named: NamedRows, scan: Scan, manifest: Manifest) -> Answer | None:
    """The rows that a filter names, as a superset of what it keeps if it says more; None if they have to be searched
    for, as they have where two fragments have one id, which old releases wrote.
    """
    fragments = manifest.fragments
    if len(fragments.ids) < len(fragments):
        return None
    if named.column == ROW_ID and scan.stable_row_ids:
        places = _row_id_places(manifest, scan.bases)
        rows = None if places is None else places.rows(named.values)
    else:
        rows = _rows_at(named.values, fragments)
    if rows is None:
        return None
    return Answer(fragments.ids, None if named.are_all else fragments.ids, rows)


def _row_id_places(manifest: Manifest, bases: Bases) -> RowIdPlaces | None:
    """Lookup of the rows of a version by stable id; None if its manifest does not have all of it."""

    def make() -> tuple[tuple[RowIdPlaces | None], int]:
        try:
            places = RowIdPlaces.of(manifest.fragments.messages)
        except CorruptFileError:
            # A scan says what is wrong, if it meets it.
            places = None
        return (places,), 0 if places is None else places.num_bytes

    return make()[0][0] if bases.identity is None else cached_part(manifest, ("row ids", bases.identity), make)[0]


def _rows_at(addresses: UInt64Array, fragments: FragmentList) -> dict[int, pyroaring.BitMap] | None:
    """Maps fragment ids to the offsets of the rows at `addresses`, which ascend; None if a fragment does not say how
    many rows it has.
    """
    ids, offsets = split_addresses(addresses)
    touched = list(fragments.with_ids(pyroaring.BitMap(ids.astype(np.uint32)) & fragments.ids))
    if any(fragment.physical_rows is None for fragment in touched):
        return None
    rows = {}
    for fragment in touched:
        first, stop = ids.searchsorted(fragment.id), ids.searchsorted(fragment.id, side="right")
        found = offsets[first:stop]
        rows[fragment.id] = pyroaring.BitMap(found[found < (fragment.physical_rows or 0)].astype(np.uint32))
    return {id_: found for id_, found in rows.items() if found}


def _asked_indexes(scan: Scan, condition: Expr, manifest: Manifest) -> Plan:
    try:
        version = _version_indexes(manifest, scan.bases)
    except CorruptFileError as error:
        warn_unused("section", "all", error)
        return Plan()
    outline = version.outline(scan, condition)
    return Plan() if outline is None else candidates(condition, outline, scan.time_zone)


def explained(
    scan: Scan, manifest: Manifest, searched: Sequence[IndexQuery] = (), *, use_scalar_index: bool = True
) -> str:
    """Which indexes answer a scan's filter and which fragments are scanned without one, one fact a line.

    Args:
        searched: the text indexes that have been asked already.
    """
    plan = index_plan(scan, manifest) if use_scalar_index else Plan()
    scanned = [fragment.id for fragment in manifest.fragments if fragment.id not in plan.matches]
    lines = [f"filter: {scan.filter}", *map(_line, [*searched, *plan.queries])]
    if plan.matches:
        source = "index result" if plan.queries else "named rows"
        lines.append(f"{source}: {plan.matches.num_rows} rows in fragments {_ids(plan.matches.known)}")
        lines += [f"superset in fragments {_ids(plan.matches.inexact)}"] if plan.matches.inexact else []
    return "\n".join([*lines, f"scanned without index: {f'fragments {_ids(scanned)}' if scanned else 'none'}"])


def _line(query: IndexQuery) -> str:
    segments = f"{query.num_segments} segment{'s' if query.num_segments > 1 else ''}"
    answer = "exact" if query.is_exact else "superset"
    return (
        f"index: {query.index} ({query.type_name}), condition {query.condition}, {segments}, "
        f"fragments {_ids(query.fragment_ids)}, {answer}"
    )


def _ids(numbers: Iterable[int]) -> str:
    """Ascending numbers as text, neighbours as ranges: 0-2, 5."""
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda item: item[1] - item[0])]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


class _FieldSegments:
    """The segments of a version by field, made for the fields that are asked for. The rows of the version refer to it
    too, but it refers to neither.

    Args:
        indexes: the indexes on each field.
    """

    def __init__(self, indexes: Mapping[int, Sequence[IndexMetadata]], bases: Bases) -> None:
        self._indexes = indexes
        self._bases = bases
        self._segments: dict[int, list[Segment]] = {}

    def on(self, field_id: int) -> list[Segment]:
        """The segments on a field that can be searched; there is a warning for each that is damaged."""
        found = self._segments.get(field_id)
        if found is None:
            made = [_segment(index, self._bases) for index in self._indexes.get(field_id, ())]
            found = self._segments[field_id] = [segment for segment in made if segment is not None]
        return found


class _VersionIndexes:
    """The indexes of a version, and what is made of them once for all scans.

    Attributes:
        segments: those on each field.

    Raises:
        CorruptFileError: the manifest's index section is damaged.
    """

    def __init__(self, manifest: Manifest, bases: Bases) -> None:
        self._system: list[IndexMetadata] = []
        by_field: dict[int, list[IndexMetadata]] = {}
        for index in parse_indices(manifest.index_section):
            if index.is_system:
                self._system.append(index)
                continue
            for field_id in index.message.fields:
                by_field.setdefault(field_id, []).append(index)
        self.segments = _FieldSegments(by_field, bases)
        self._manifest = manifest
        self._bases = bases
        self._rows: TableRows | None = None
        self._columns: TableColumns | None = None

    def outline(self, scan: Scan, condition: Expr) -> Outline | None:
        """Outline of the indexes that answer a scan's filter; None if there is no usable index on its columns, or
        rewritten rows cannot be followed.
        """
        columns = self._columns_of(scan.schema)
        found = [columns.find(path) for path in referenced_columns(condition)]
        segments = [self.segments.on(column.field_id) for column in found if column is not None]
        table = self.rows() if any(segments) else None
        if table is None:
            return None
        return Outline(condition, table, columns)

    def _columns_of(self, schema: LanceSchema) -> TableColumns:
        # Nearly all scans of a version have its schema, the same object.
        if self._columns is None or self._columns.schema is not schema:
            self._columns = TableColumns(schema)
        return self._columns

    def rows(self) -> TableRows | None:
        """The version as the planner sees it; None if this release cannot follow the moves of its rows."""
        if self._rows is None:
            reuse_indexes = [index for index in self._system if index.is_fragment_reuse]
            reuse = self._reuse(reuse_indexes[0]) if reuse_indexes else None
            if reuse is not None or not reuse_indexes:
                self._rows = TableRows(
                    _fragment_rows(self._manifest.fragments),
                    self.segments.on,
                    stable_row_ids=self._manifest.has_stable_row_ids,
                    reuse=reuse,
                )
        return self._rows

    def _reuse(self, index: IndexMetadata) -> FragmentReuse | None:
        """The moves of rows by deferred compactions; None if this release cannot follow them."""
        if self._manifest.has_stable_row_ids or index.message.index_version > 0:
            return None
        try:
            return fragment_reuse(index, self._bases)
        except LanceError as error:
            warn_unused(index.name, index.uuid, error)
            return None


def _version_indexes(manifest: Manifest, bases: Bases) -> _VersionIndexes:
    """The indexes of a version. Raises as `_VersionIndexes`."""
    if bases.identity is None:
        return _VersionIndexes(manifest, bases)

    def make() -> tuple[_VersionIndexes, int]:
        num_bytes = _BYTES_PER_FRAGMENT * len(manifest.fragments) + len(manifest.index_section or b"")
        return _VersionIndexes(manifest, bases), num_bytes

    return cached_part(manifest, ("indexes", bases.identity), make)


def segments_of(manifest: Manifest, bases: Bases, field_id: int) -> list[Segment]:
    """The segments of a version's indexes on a field that can be searched."""
    if not manifest.index_section:
        return []
    try:
        return _version_indexes(manifest, bases).segments.on(field_id)
    except CorruptFileError as error:
        warn_unused("section", "all", error)
        return []


def _kind(index: IndexMetadata) -> tuple[type[ScalarIndex] | None, tuple[Step, ...] | None]:
    """(the kind of a segment's files, None if this release does not search it; the path into JSON, if it has one)."""
    details = index.message.index_details
    if details.type_url.lower() != JSON_URL.lower():
        return index_type_of(details.type_url), None
    target = JsonTarget.of_details(details.value)
    return target.index_type, target.steps


def _segment(index: IndexMetadata, bases: Bases) -> Segment | None:
    """The segment that an index describes; None if this release does not search it, or, after a warning, if it is
    damaged.
    """
    message, uuid = index.message, index.uuid
    try:
        index_type, steps = _kind(index)
        if index_type is None or len(message.fields) != 1 or message.index_version > index_type.max_version:
            return None
        base_id = None if index.base_id is None else BaseId(index.base_id)
        store, folder = bases.index_folder(uuid, base_id)
        return Segment(
            name=index.name,
            uuid=uuid,
            index_type=index_type,
            field_id=message.fields[0],
            version=message.index_version,
            fragment_ids=index.fragment_ids(),
            files=IndexFiles(store, folder, {file.path: file.size_bytes for file in message.files if file.size_bytes}),
            dataset_version=message.dataset_version,
            json_steps=steps,
        )
    except LanceError as error:
        warn_unused(index.name, uuid, error)
        return None


@dataclass(frozen=True, slots=True)
class _Rows:
    """A fragment as a search sees it."""

    num_rows: int
    num_live_rows: int
    message: table_pb2.DataFragment

    def offsets_of(self, row_ids: RowSet) -> pyroaring.BitMap | None:
        if not self.message.HasField("inline_row_ids"):
            return None
        return row_ids_of(self.message).offsets_of(row_ids)


def _fragment_rows(fragments: FragmentList) -> dict[int, _Rows]:
    counts = zip(fragments.messages, fragments.row_counts(), strict=True)
    return {
        message.id: _Rows(message.physical_rows, live or 0, message)
        for message, live in counts
        if message.physical_rows
    }
