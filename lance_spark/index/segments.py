"""Searching one segment of an index: which rows of the table's current fragments satisfy a predicate.

An index of a name can have several segments, each of which answers for fragments of its own. A segment answers for
the fragments of its bitmap that the table still has, and for nothing else: rows of other fragments that its files
name have been deleted, moved, or changed since.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa
import pyroaring

from lance_spark.errors import CorruptFileError
from lance_spark.expr.json_path.jsonb import Step
from lance_spark.index.base import Coverage, Predicate, ScalarIndex, SearchResult
from lance_spark.index.files import IndexFiles
from lance_spark.index.fragment_reuse import FragmentReuse
from lance_spark.index.json_index import value_type
from lance_spark.index.row_set import RowSet

_LOGGER = logging.getLogger(__name__)


class FragmentRows(Protocol):
    """What a search needs to know of a fragment.

    Attributes:
        num_rows: physical rows, deleted ones included.
        num_live_rows: rows that are not deleted, 0 if that is not known.
    """

    @property
    def num_rows(self) -> int: ...

    @property
    def num_live_rows(self) -> int: ...

    def offsets_of(self, row_ids: RowSet) -> pyroaring.BitMap | None:
        """The offsets of the rows with these stable row ids; None if the fragment's row ids are not at hand."""
        ...


@dataclass(frozen=True, slots=True)
class Matches:
    """The rows of a fragment that an index has found.

    Attributes:
        offsets: rows of the fragment, deleted ones possibly among them.
        is_exact: whether each of them that is not deleted satisfies the predicate.
    """

    offsets: pyroaring.BitMap
    is_exact: bool


@dataclass(frozen=True)
class Segment:
    """One segment of an index.

    Attributes:
        name: of the index.
        uuid: of the segment.
        index_type: its kind.
        field_id: the field whose values are in the index.
        version: of its files.
        fragment_ids: the fragments it was built or kept for.
        files: its files.
        dataset_version: the version whose rows it was built from.
        json_steps: the path of the values in a JSON column; None if the column's own values are indexed.
    """

    name: str
    uuid: str
    index_type: type[ScalarIndex]
    field_id: int
    version: int
    fragment_ids: pyroaring.BitMap
    files: IndexFiles
    dataset_version: int = 0
    json_steps: tuple[Step, ...] | None = None

    def search(
        self,
        predicate: Predicate,
        fragments: Mapping[int, FragmentRows],
        *,
        stable_row_ids: bool,
        reuse: FragmentReuse | None = None,
    ) -> dict[int, Matches]:
        """The matching rows by fragment id. Fragments that are missing have to be scanned.

        Args:
            fragments: the fragments of the table's version, by id.
            stable_row_ids: whether the table has stable row ids.
            reuse: the moves of rows that the files may not show yet.

        Raises:
            LanceError: the segment is missing, broken, or does not fit the fragments.
        """
        covered = self._covered(fragments, reuse)
        if not covered:
            return {}
        if self.json_steps is not None and value_type(self.files, self.index_type) != predicate.dtype:
            return {}
        index = self.index_type(self.files, _coverage(covered, reuse))
        result = index.search(predicate)
        if result is None:
            return {}
        if reuse is not None:
            result = replace(result, rows=reuse.moved(result.rows))
        holds_row_ids = stable_row_ids and self.index_type.holds_row_ids(self.version)
        return _by_fragment(result, covered, holds_row_ids=holds_row_ids)

    def bounds(self, dtype: pa.DataType) -> tuple[pa.Scalar, pa.Scalar] | None:
        """As `ScalarIndex.bounds`."""
        return self.index_type(self.files, Coverage({}, {})).bounds(dtype)

    def _covered(self, fragments: Mapping[int, FragmentRows], reuse: FragmentReuse | None) -> dict[int, FragmentRows]:
        """The fragments that the segment answers for."""
        ids = self.fragment_ids if reuse is None else reuse.current(self.fragment_ids)
        covered = {id_: fragments[id_] for id_ in ids if id_ in fragments}
        if reuse is None or not self.index_type.loses_moved_rows:
            return covered
        doubtful = reuse.unexplained(covered, self.dataset_version)
        if not doubtful:
            return covered
        all_rows = self.index_type(self.files, _coverage(covered, reuse)).all_rows()
        rows = None if all_rows is None else reuse.moved(all_rows)
        return {
            id_: fragment
            for id_, fragment in covered.items()
            if id_ not in doubtful or (rows is not None and len(rows.part(id_)) >= fragment.num_live_rows > 0)
        }


def _coverage(covered: Mapping[int, FragmentRows], reuse: FragmentReuse | None) -> Coverage:
    num_rows = {id_: rows.num_rows for id_, rows in covered.items()}
    live_rows = {id_: rows.num_live_rows for id_, rows in covered.items()}
    if reuse is None:
        return Coverage(num_rows, live_rows)
    moved = {id_ for id_ in covered if reuse.sources([id_])}
    sources = reuse.sources(covered)
    unmoved = {id_: 0 if id_ in moved else count for id_, count in live_rows.items()}
    return Coverage(num_rows | sources, dict.fromkeys(sources, 0) | unmoved, sum(live_rows[id_] for id_ in moved))


def warn_unused(name: str, uuid: str, reason: object) -> None:
    """Logs that a segment is not used."""
    _LOGGER.warning(
        "index %s (segment %s) is not used, its rows are scanned: %s. Build the index again to use it",
        name,
        uuid,
        reason,
    )


def _by_fragment(
    result: SearchResult, covered: Mapping[int, FragmentRows], *, holds_row_ids: bool
) -> dict[int, Matches]:
    found: dict[int, Matches] = {}
    for id_, rows in covered.items():
        offsets = rows.offsets_of(result.rows) if holds_row_ids else result.rows.part(id_)
        if offsets is None:
            continue
        if offsets and offsets.max() >= rows.num_rows:
            raise CorruptFileError(f"row {offsets.max()} of fragment {id_}, which has {rows.num_rows} rows")
        if result.is_complement:
            offsets = pyroaring.BitMap(range(rows.num_rows)) - offsets
        found[id_] = Matches(offsets, result.is_exact)
    return found
