"""The segments of text indexes of a version, and where the rows of their documents are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyroaring

from lance_spark.errors import CorruptFileError, LanceError
from lance_spark.index.files import IndexFiles
from lance_spark.index.fragment_reuse import FragmentReuse
from lance_spark.index.members import list_levels
from lance_spark.index.segments import warn_unused
from lance_spark.index.text.items import Granularity
from lance_spark.index.text.search import Locate, LocatedPart
from lance_spark.index.text.segment import MAX_VERSION, TYPE_URL, TextSegment, granularity_of
from lance_spark.schema.field import Field
from lance_spark.storage.cache import cached_part
from lance_spark.table.bases import Bases
from lance_spark.table.manifests.fragment_reuse import FRAGMENT_REUSE, fragment_reuse
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.rows.fragment import BaseId, DataFragment
from lance_spark.table.search.locate import RowLocator

_OPEN_BYTES = 4096
_PARSED_BYTES = 4


@dataclass(frozen=True)
class Covering:
    """A segment and the fragments that it answers for.

    Attributes:
        index: the name of its index.
        sources: its partitions.
    """

    index: str
    segment: TextSegment
    fragments: tuple[DataFragment, ...]
    sources: tuple[LocatedPart, ...]


class TextIndexes:
    """The text indexes of a version."""

    def __init__(self, manifest: Manifest, bases: Bases) -> None:
        self._manifest = manifest
        self._bases = bases
        self._indexes, self._moves = _text_indexes(manifest, bases)
        self._damaged: set[str] = set()
        self._of_fields: dict[int, list[tuple[IndexMetadata, Granularity]]] = {}

    @property
    def fields(self) -> set[int]:
        """The ids of all fields with an index."""
        return {field_id for index in self._indexes for field_id in index.message.fields}

    def granularities(self, path: Sequence[Field]) -> set[Granularity]:
        """Document granularities of the indexes of a field."""
        return {granularity for _, granularity in self._of(path)}

    def segments(self, path: Sequence[Field], granularity: Granularity) -> list[Covering]:
        """The segments of the best index of a field that can be read, without overlaps."""
        own = [index for index, documents in self._of(path) if documents is granularity]
        levels = list_levels(path) if granularity is Granularity.LIST_ELEMENT else 0
        found: list[Covering] = []
        for name in dict.fromkeys(index.name for index in own):
            segments = [segment for index in own if index.name == name for segment in self._opened(index, levels)]
            if sum(len(item.fragments) for item in segments) > sum(len(item.fragments) for item in found):
                found = segments
        return _without_overlaps(found)

    def _of(self, path: Sequence[Field]) -> list[tuple[IndexMetadata, Granularity]]:
        """The segments of the indexes of a field, read or not, and what their documents are."""
        if path[-1].id not in self._of_fields:
            ids = {path[-1].id, *([child.id for child in path[-1].children])}
            found = self._of_fields[path[-1].id] = []
            for index in self._indexes:
                if set(index.message.fields) <= ids:
                    try:
                        found.append((index, granularity_of(index.message.index_details.value)))
                    except LanceError as error:
                        warn_unused(index.name, index.uuid, error)
        return self._of_fields[path[-1].id]

    def leave_out(self, error: CorruptFileError) -> bool:
        """Leaves out the segment that has the damaged file, with a warning; False if no segment in use has it."""
        folders = (error.path or "").split("/")
        for index in self._indexes:
            if index.uuid in folders and index.uuid not in self._damaged:
                self._damaged.add(index.uuid)
                warn_unused(index.name, index.uuid, error)
                return True
        return False

    def _opened(self, index: IndexMetadata, item_levels: int) -> list[Covering]:
        if index.message.index_version > MAX_VERSION or index.uuid in self._damaged:
            return []

        def make() -> tuple[list[Covering], int]:
            return self._open(index, item_levels), _OPEN_BYTES

        try:
            return cached_part(self._manifest, ("text segment", index.uuid), make)
        except LanceError as error:
            self._damaged.add(index.uuid)
            warn_unused(index.name, index.uuid, error)
            return []

    def _open(self, index: IndexMetadata, item_levels: int) -> list[Covering]:
        fragments = self._covered(index)
        if not fragments:
            return []
        base_id = None if index.base_id is None else BaseId(index.base_id)
        store, folder = self._bases.index_folder(index.uuid, base_id)
        sizes = {file.path: file.size_bytes for file in index.message.files if file.size_bytes}
        segment = TextSegment.open(IndexFiles(store, folder, sizes))
        if any(part.item_levels != item_levels for part in segment.partitions):
            raise CorruptFileError("the documents of a text index are others than its details say")
        locate: Locate = RowLocator(fragments, self._bases, stable_row_ids=self._manifest.has_stable_row_ids)
        if self._moves is not None:
            locate = _MovedRows(self._moves, locate)
        return [
            Covering(index.name, segment, fragments, tuple(LocatedPart(part, locate) for part in segment.partitions))
        ]

    def _covered(self, index: IndexMetadata) -> tuple[DataFragment, ...]:
        ids = index.fragment_ids()
        if self._moves is not None:
            ids = self._moves.current(ids)
            # The reference library can have lost rows of these.
            ids -= pyroaring.BitMap(self._moves.unexplained(ids, index.message.dataset_version))
        return tuple(
            fragment
            for fragment in self._manifest.fragments
            if fragment.id in ids
            and fragment.physical_rows is not None
            and (fragment.row_ids is not None or not self._manifest.has_stable_row_ids)
        )


@dataclass(frozen=True)
class _MovedRows:
    """Finds rows by their addresses from before deferred compactions."""

    moves: FragmentReuse
    locate: Locate

    def __call__(self, addresses: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
        current, is_kept = self.moves.moved_each(addresses)
        found, exists = self.locate(current)
        return found, exists & is_kept


def _text_indexes(manifest: Manifest, bases: Bases) -> tuple[list[IndexMetadata], FragmentReuse | None]:
    """The segments of text indexes, and the moves of rows that their files do not show."""
    if not manifest.index_section:
        return [], None
    try:
        indexes = _indexes(manifest, manifest.index_section)
        reuse = next((index for index in indexes if index.name == FRAGMENT_REUSE), None)
        if reuse is not None and (manifest.has_stable_row_ids or reuse.message.index_version > 0):
            # No library writes both; which of the two an index follows is not known.
            return [], None
        moves = None if reuse is None else fragment_reuse(reuse, bases)
    except LanceError as error:
        warn_unused("section", "all", error)
        return [], None
    found = [index for index in indexes if index.message.index_details.type_url.lower() == TYPE_URL.lower()]
    return found, moves


def _indexes(manifest: Manifest, section: bytes) -> tuple[IndexMetadata, ...]:
    def parse() -> tuple[tuple[IndexMetadata, ...], int]:
        return parse_indices(section), _PARSED_BYTES * len(section)

    return cached_part(manifest, "parsed indexes", parse)


def _without_overlaps(found: Sequence[Covering]) -> list[Covering]:
    """The segments, without those that cover a fragment of an earlier one: its rows would be found twice."""
    kept: list[Covering] = []
    seen: set[int] = set()
    for item in found:
        ids = {fragment.id for fragment in item.fragments}
        if ids.isdisjoint(seen):
            kept.append(item)
            seen |= ids
    return kept
