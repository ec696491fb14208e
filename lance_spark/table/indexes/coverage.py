"""Which fragments the segments of a version cover, and where deferred compactions have moved their rows."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import numpy as np
import numpy.typing as npt
import pyroaring

from lance_spark.errors import CorruptFileError
from lance_spark.index.builders.base import IdMapping, OldSegment
from lance_spark.index.files import IndexFiles
from lance_spark.index.fragment_reuse import FragmentReuse
from lance_spark.table.bases import Bases
from lance_spark.table.indexes.deferred_remap import fragment_reuse_index
from lance_spark.table.indexes.definition import IndexDefinition
from lance_spark.table.manifests.fragment_reuse import covered_fragments, fragment_reuse
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.rows.row_address import UInt64Array


class Coverage:
    """The segments of one version, seen through its fragment reuse index.

    Attributes:
        has_moves: whether the version has a fragment reuse index.
    """

    def __init__(self, manifest: Manifest, bases: Bases) -> None:
        index = fragment_reuse_index(manifest)
        self.has_moves = index is not None
        self._moves: FragmentReuse | None = None
        if index is not None and index.message.index_version == 0 and not manifest.has_stable_row_ids:
            # Without it, segments cover nothing that is known, and are built again.
            with suppress(CorruptFileError):
                self._moves = fragment_reuse(index, bases)
        self._covered = covered_fragments(parse_indices(manifest.index_section), bases)

    def fragment_ids(self, segment: IndexMetadata) -> pyroaring.BitMap:
        """The fragments that a segment covers."""
        return self._covered(segment)

    def is_moved(self, segment: IndexMetadata) -> bool:
        """Whether the files of a segment may have addresses from before a deferred compaction."""
        if self._moves is None:
            return False
        return self._moves.needed_by(segment.message.dataset_version, segment.fragment_ids())

    def can_follow(self, definition: IndexDefinition, segment: IndexMetadata) -> bool:
        """Whether the rows of a segment's files are known under their current addresses."""
        if not self.has_moves:
            return True
        if self._moves is None:
            return False
        if not self.is_moved(segment):
            return True
        # The reference library can have lost rows of such a segment.
        covered = self.fragment_ids(segment)
        lost = definition.builder.index_type.loses_moved_rows and self._moves.unexplained(
            covered, segment.message.dataset_version
        )
        return definition.builder.can_remap and not lost

    def old_segment(
        self, segment: IndexMetadata, files: IndexFiles, mapping: IdMapping, rows: Mapping[int, int]
    ) -> OldSegment:
        """A segment as a merge reads it.

        Args:
            mapping: what becomes of current addresses.
            rows: physical rows of the covered fragments, by id.
        """
        moves = self._moves
        if moves is None or not self.is_moved(segment):
            return OldSegment(files, mapping, rows)

        def moved(ids: UInt64Array) -> tuple[npt.NDArray[np.bool_], UInt64Array]:
            is_kept, now = moves.moved_ids(ids)
            keep, after = mapping(now)
            is_kept[is_kept] = keep
            return is_kept, after

        return OldSegment(files, moved, {**moves.sources(rows), **rows})
