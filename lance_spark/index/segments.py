"""Searching one segment of an index: which rows of the table's current fragments satisfy a predicate.

An index of a name can have several segments, each of which answers for fragments of its own. A segment answers for
the fragments of its bitmap that the table still has, and for nothing else: rows of other fragments that its files
name have been deleted, moved, or changed since.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import pyarrow as pa
import pyroaring

from lance_spark.cached import cached_property
from lance_spark.errors import CorruptFileError
from lance_spark.expr.json_path.jsonb import Step
from lance_spark.index.answers import Answer
from lance_spark.index.base import Coverage, Predicate, ScalarIndex, SearchResult
from lance_spark.index.files import IndexFiles
from lance_spark.index.fragment_reuse import FragmentReuse
from lance_spark.index.json_index import value_type
from lance_spark.index.row_set import RowSet

_LOGGER = logging.getLogger(__name__)


class FragmentRows(Protocol):
    """Row counts and row ids of a fragment, for searches.

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

    def bounds(self, dtype: pa.DataType) -> tuple[pa.Scalar, pa.Scalar] | None:
        """The least and the greatest value in the files of the segment; see `ScalarIndex.bounds`."""
        return self.index_type(self.files, Coverage({}, {})).bounds(dtype)


class BoundSegment:
    """A segment against the fragments of a version; what does not depend on a question is found once.

    Args:
        segment: the segment.
        fragments: the fragments of the version, by id.
        stable_row_ids: whether the table has stable row ids.
        reuse: the moves of rows that the files may not show yet.
    """

    def __init__(
        self,
        segment: Segment,
        fragments: Mapping[int, FragmentRows],
        *,
        stable_row_ids: bool,
        reuse: FragmentReuse | None = None,
    ) -> None:
        self.segment = segment
        self._fragments = fragments
        self._reuse = reuse
        self._holds_row_ids = stable_row_ids and segment.index_type.holds_row_ids(segment.version)

    def search(self, predicate: Predicate, wanted: pyroaring.BitMap) -> Answer:
        """The matching rows of the fragments that are covered. Fragments that are missing have to be scanned.

        Args:
            wanted: ids of the fragments in question.

        Raises:
            LanceError: the segment is missing, broken, or does not fit the fragments.
        """
        ids = self._covered_ids & wanted
        if not ids:
            return Answer()
        segment = self.segment
        if segment.json_steps is not None and value_type(segment.files, segment.index_type) != predicate.dtype:
            return Answer()
        result = self._index.search(predicate)
        keeps_old_values = self._holds_row_ids and segment.index_type.keeps_old_values
        if result is None or (keeps_old_values and result.is_complement):
            return Answer()
        if keeps_old_values:
            result = replace(result, is_exact=False)
        if self._reuse is not None:
            result = replace(result, rows=self._reuse.moved(result.rows))
        return self._by_fragment(result, ids)

    def narrows(self, answer: Answer) -> bool:
        """Whether an answer of this segment leaves out a row that may exist."""
        return any(
            len(answer.rows.get(id_, ())) < (self._covered[id_].num_live_rows or self._covered[id_].num_rows)
            for id_ in answer.known
        )

    @cached_property
    def _index(self) -> ScalarIndex:
        return self.segment.index_type(self.segment.files, _coverage(self._covered, self._reuse))

    @cached_property
    def _covered_ids(self) -> pyroaring.BitMap:
        return pyroaring.BitMap(self._covered)

    @cached_property
    def _covered(self) -> dict[int, FragmentRows]:
        """The fragments that the segment answers for."""
        segment, reuse = self.segment, self._reuse
        ids = segment.fragment_ids if reuse is None else reuse.current(segment.fragment_ids)
        covered = {id_: self._fragments[id_] for id_ in ids if id_ in self._fragments}
        if reuse is None or not segment.index_type.loses_moved_rows:
            return covered
        doubtful = reuse.unexplained(covered, segment.dataset_version)
        if not doubtful:
            return covered
        all_rows = segment.index_type(segment.files, _coverage(covered, reuse)).all_rows()
        rows = None if all_rows is None else reuse.moved(all_rows)
        return {
            id_: fragment
            for id_, fragment in covered.items()
            if id_ not in doubtful or (rows is not None and len(rows.part(id_)) >= fragment.num_live_rows > 0)
        }

    def _by_fragment(self, result: SearchResult, ids: pyroaring.BitMap) -> Answer:
        rows = self._of_row_ids(result, ids) if self._holds_row_ids else result.rows.parts(ids)
        known = ids & pyroaring.BitMap(rows) if self._holds_row_ids else ids
        for id_, offsets in rows.items():
            num_rows = self._covered[id_].num_rows
            if offsets and offsets.max() >= num_rows:
                raise CorruptFileError(f"row {offsets.max()} of fragment {id_}, which has {num_rows} rows")
        if result.is_complement:
            rows = {id_: self._other_rows(id_, rows.get(id_)) for id_ in known}
        found = {id_: offsets for id_, offsets in rows.items() if offsets}
        return Answer(known, None if result.is_exact else known, found)

    def _of_row_ids(self, result: SearchResult, ids: pyroaring.BitMap) -> dict[int, pyroaring.BitMap]:
        """The rows with some stable row ids, for each fragment whose row ids are at hand."""
        offsets = ((id_, self._covered[id_].offsets_of(result.rows)) for id_ in ids)
        return {id_: found for id_, found in offsets if found is not None}

    def _other_rows(self, id_: int, offsets: pyroaring.BitMap | None) -> pyroaring.BitMap:
        rows = pyroaring.BitMap(range(self._covered[id_].num_rows))
        return rows if offsets is None else rows - offsets


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
    """Logs that a segment is not used, once in this process for the same reason: each plan of a scan finds it again."""
    _warn_once(name, uuid, str(reason))


@lru_cache(maxsize=1024)
def _warn_once(name: str, uuid: str, reason: str) -> None:
    _LOGGER.warning(
        "index %s (segment %s) is not used, its rows are scanned: %s. Build the index again to use it",
        name,
        uuid,
        reason,
    )
