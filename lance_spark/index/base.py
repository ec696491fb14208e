"""Base of all scalar indexes: the search for the rows that satisfy a predicate on one column."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.expr.evaluate import evaluate_filter
from lance_spark.expr.nodes import Expr
from lance_spark.expr.prune import ColumnStatistics, may_match
from lance_spark.index.files import IndexFiles
from lance_spark.index.row_set import RowSet
from lance_spark.index.shapes import with_arrays


class Fit(Enum):
    """Precision of the answer of an index to a predicate."""

    EXACT = "exact"
    SUPERSET = "superset"
    """Rows that do not match can be among the answer, so each has to be checked."""
    NONE = "none"


@dataclass(frozen=True)
class Predicate:
    """A condition on a single column that evaluates without error whatever the values are.

    Attributes:
        expr: the condition.
        names: the column, level by level, as the schema spells it.
        paths: the column as `expr` spells it.
        dtype: the column's type.
        time_zone: the session's zone.
    """

    expr: Expr
    names: tuple[str, ...]
    paths: frozenset[tuple[str, ...]]
    dtype: pa.DataType
    time_zone: str

    def keeps(self, values: pa.Array) -> npt.NDArray[np.bool_]:
        """bool[n]: for which of some values of the column the condition is TRUE."""
        column = values
        for name in reversed(self.names[1:]):
            column = pa.StructArray.from_arrays([column], [name])
        batch = pa.RecordBatch.from_arrays([column], [self.names[0]])
        kept: npt.NDArray[np.bool_] = evaluate_filter(self.expr, batch, time_zone=self.time_zone).to_numpy(
            zero_copy_only=False
        )
        return kept

    def may_match(self, statistics: ColumnStatistics) -> bool:
        """Whether the condition can be TRUE for a value in a set of rows with these statistics."""
        return may_match(self._for_bounds, dict.fromkeys(self.paths, statistics), time_zone=self.time_zone)

    @cached_property
    def _for_bounds(self) -> Expr:
        return with_arrays(self.expr, self.dtype, self.time_zone)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The rows of an index segment that satisfy a predicate, addresses or stable row ids.

    Attributes:
        rows: the rows.
        is_exact: False if rows that do not match can be among them.
        is_complement: the answer is every row that the segment covers except `rows`.
    """

    rows: RowSet
    is_exact: bool = True
    is_complement: bool = False


@dataclass(frozen=True)
class Coverage:
    """The rows that a segment answers for.

    Attributes:
        fragment_rows: physical rows (deleted ones included) by fragment id.
        live_rows: a lower bound of the rows that are not deleted, by fragment id.
        num_moved_rows: rows that are not deleted, and of which it is not known under which fragment the files have
            them. All fragments that are possible are in `fragment_rows`, with 0 live rows.
    """

    fragment_rows: Mapping[int, int]
    live_rows: Mapping[int, int]
    num_moved_rows: int = 0

    @cached_property
    def num_live_rows(self) -> int:
        """Rows that are not deleted, in all fragments."""
        return sum(self.live_rows.values()) + self.num_moved_rows


class IndexKind:
    """A kind of index, as the metadata of a table names it."""

    type_name: ClassVar[str]
    type_url: ClassVar[str]
    max_version: ClassVar[int]
    """The newest version of the index files that is understood."""
    loses_moved_rows: ClassVar[bool] = False
    """Whether the reference library (14.0.2) can lose rows of such a segment: by an immediate compaction of fragments
    that a deferred compaction has made."""

    keeps_old_values: ClassVar[bool] = False
    """Whether the reference library (14.0.2) leaves the values that rows had before in a segment that it merges, where
    rows keep their ids: what is found is a superset."""

    @classmethod
    def holds_row_ids(cls, version: int) -> bool:
        """Whether segments of this version hold stable row ids, in a table that has them. Otherwise they hold
        addresses.
        """
        return False


class ScalarIndex(IndexKind, ABC):
    """One segment of an index, open for searching."""

    def __init__(self, files: IndexFiles, coverage: Coverage) -> None:
        self._files = files
        self._coverage = coverage

    @classmethod
    @abstractmethod
    def fit(cls, predicate: Predicate) -> Fit:
        """Precision of the answer of this kind of index to a predicate; decided without reading anything."""

    @abstractmethod
    def search(self, predicate: Predicate) -> SearchResult | None:
        """The rows for which `predicate` is TRUE; None if reading the column is cheaper than finding them here.

        Raises:
            LanceError: a file of the index is missing, broken, or does not fit the rows that it covers.
        """

    def bounds(self, dtype: pa.DataType) -> tuple[pa.Scalar, pa.Scalar] | None:
        """The least and the greatest value that the files name as bounds, nulls left out; None if they name none.

        Rows with these values may have been deleted since, and other rows may be beyond them: they are hints.

        Raises:
            LanceError: as `search`.
        """
        return None

    def all_rows(self) -> RowSet | None:
        """Every row in the files, addresses or stable row ids; None if this kind of index does not have them all.

        Raises:
            LanceError: as `search`.
        """
        return None
