"""Rows in memory by their keys, and the rows of a version that have one of these keys.

Values are the same if a filter calls them equal: NaN is NaN, and -0.0 is 0.0. A key with a null in it is the same as
none, not even itself.

A key becomes one number: each column's value is replaced by its number among the column's distinct values, and these
numbers are combined column by column, renumbered each time so that they stay below the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import InvalidInputError
from lance_spark.expr.columns import column_values
from lance_spark.expr.nodes import And, Column, Expr, InArray
from lance_spark.expr.values import family_of, plain
from lance_spark.index.planner import Plan
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.projection import find
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.index_candidates import Candidates
from lance_spark.table.reading.index_plan import index_plan
from lance_spark.table.reading.scan import Scan
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.rows.row_address import UInt64Array, distinct

_NONE = -1

_MARK_BITS = 16
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""2**64 divided by the golden ratio: neighbours get marks far from each other."""

_MAX_MARKED = 1 << 13
"""With more known keys too many others have one of their marks."""

_MIN_SIFTED = 1 << 12
"""To look up fewer keys takes less time than to make the table."""


class KeyIndex:
    """Rows, found by their keys.

    Args:
        columns: the key columns, all of one length n.
        names: what they are called, for errors.

    Attributes:
        keys: int64[n]: the number of each row's key; -1 for a key that has a null in it.
        num_keys: the number of distinct keys.

    Raises:
        InvalidInputError: a column of a type whose values cannot be compared.
    """

    def __init__(self, columns: Sequence[pa.Array], names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._values: list[pa.Array] = []
        self._known: list[Int64Array] = []
        self.keys: Int64Array = np.zeros(len(columns[0]), np.int64)
        self.num_keys = 0
        for name, column in zip(names, columns, strict=True):
            values = _comparable(column, name)
            known_values = pc.unique(values.drop_null())
            if _is_whole(known_values.type):
                known_values = known_values.take(pc.sort_indices(known_values))
            self.keys = self._combined(self.keys, _numbers(values, known_values, name), len(known_values))
            known = distinct(self.keys[self.keys != _NONE])
            self._values.append(known_values)
            self._known.append(known)
            self.keys = _renumbered(self.keys, known)
            self.num_keys = len(known)

    def find(self, columns: Sequence[pa.Array]) -> Int64Array:
        """int64[n]: the number of the key of each row of `columns`, -1 where no row of the index has it.

        Args:
            columns: the key columns of other rows, of the types of the index.
        """
        keys: Int64Array | None = None
        for name, column, known_values, known in zip(self._names, columns, self._values, self._known, strict=True):
            numbers = _numbers(_comparable(column, name), known_values, name)
            # Each known value of the first column occurs, so that its numbers are those of the keys.
            keys = numbers if keys is None else _renumbered(self._combined(keys, numbers, len(known_values)), known)
        assert keys is not None
        return keys

    @property
    def distinct_values(self) -> Sequence[pa.Array]:
        """The distinct values of each key column, without nulls."""
        return tuple(self._values)

    def counts(self) -> Int64Array:
        """int64[num_keys]: how many rows have each key."""
        return np.bincount(self.keys[self.keys != _NONE], minlength=self.num_keys).astype(np.int64)

    def first_rows(self) -> Int64Array:
        """int64[num_keys]: the first row that has each key."""
        rows = np.flatnonzero(self.keys != _NONE)
        found: Int64Array = np.zeros(self.num_keys, np.int64)
        # Of several assignments to one place the last one counts.
        found[self.keys[rows[::-1]]] = rows[::-1]
        return found

    @staticmethod
    def _combined(keys: Int64Array, numbers: Int64Array, num_values: int) -> Int64Array:
        missing = (keys == _NONE) | (numbers == _NONE)
        # Both factors are below 2**31, the number of rows that an array in memory has.
        combined: Int64Array = keys * max(num_values, 1) + numbers
        combined[missing] = _NONE
        return combined


def _comparable(column: pa.Array, name: str) -> pa.Array:
    values = plain(column)
    if family_of(values.type) is None:
        raise InvalidInputError(f"column {name!r} of type {column.type} cannot be a key")
    if pa.types.is_floating(values.type):
        nan = pa.scalar(float("nan"), values.type)
        return pc.if_else(pc.is_nan(values), nan, pc.add(values, pa.scalar(0.0, values.type)))
    return values


def _numbers(values: pa.Array, known_values: pa.Array, name: str) -> Int64Array:
    """int64[n]: the place of each value among `known_values`, -1 for none and for null.

    Whole numbers, which are in order, are looked up; for others Arrow makes a hash table of all known values each time.
    """
    if _is_whole(values.type):
        if values.null_count == 0:
            return _renumbered(_whole(values), _whole(known_values))
        found = _renumbered(_whole(values.fill_null(0)), _whole(known_values))
        return np.where(values.is_valid().to_numpy(zero_copy_only=False), found, _NONE)
    try:
        found = pc.index_in(values, value_set=known_values)
    except pa.ArrowException as error:
        raise InvalidInputError(f"column {name!r} of type {values.type} cannot be a key: {error}") from error
    numbers: npt.NDArray[np.int32] = pc.fill_null(found, _NONE).to_numpy(zero_copy_only=False)
    return numbers.astype(np.int64)


def _is_whole(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_integer(dtype))


def _whole(values: pa.Array) -> Int64Array:
    numbers: Int64Array = values.to_numpy(zero_copy_only=False)
    return numbers


def _renumbered(keys: Int64Array, known: Int64Array) -> Int64Array:
    """int64[n]: the place of each key in `known` (ascending), -1 for none."""
    if len(known) > _MAX_MARKED or len(keys) < _MIN_SIFTED:
        return _places(keys, known)
    # Mostly few rows have one of the keys: a table of bits leaves out most others, in a third of the time.
    marked = np.zeros(1 << _MARK_BITS, np.bool_)
    marked[_marks(known)] = True
    rows = np.flatnonzero(marked[_marks(keys)])
    places = np.full(len(keys), _NONE, np.int64)
    places[rows] = _places(keys[rows], known)
    return places


def _marks(keys: Int64Array) -> UInt64Array:
    """uint64[n], below 1 << _MARK_BITS: the same for equal keys, and mostly another for others."""
    # Negative ones become large: the same number for the same key.
    marks: UInt64Array = (keys.astype(np.uint64, copy=False) * _MULTIPLIER) >> np.uint64(64 - _MARK_BITS)
    return marks


def _places(keys: Int64Array, known: Int64Array) -> Int64Array:
    if len(known) == 0:
        return np.full(len(keys), _NONE, np.int64)
    places: Int64Array = np.searchsorted(known, keys)
    np.minimum(places, len(known) - 1, out=places)
    places[known[places] != keys] = _NONE
    return places


_MAX_KEYS = 100_000
"""An index is not asked for more keys at once."""

_ROWS_PER_KEY = 512
"""Nor if the table has fewer rows for each key: reading the column is cheaper."""


class KeyRows:
    """The rows of a version, with their keys.

    Args:
        scan: reads the key columns and, as the last column, the address of each row.
        manifest: the version.
        paths: the key columns.
        index: the keys.
        matched_only: rows with other keys may be left out.
    """

    def __init__(
        self, scan: Scan, manifest: Manifest, paths: Sequence[tuple[str, ...]], index: KeyIndex, *, matched_only: bool
    ) -> None:
        self._scan = scan
        self._paths = paths
        self._index = index
        self._plan = Plan()
        condition = _condition(scan, paths, index) if matched_only and _is_selective(manifest, index) else None
        filtered = replace(scan, filter=condition)
        if condition is not None:
            self._plan = index_plan(filtered, manifest)
        self._candidates = Candidates(filtered, self._plan)

    def read(self, fragments: Iterable[DataFragment]) -> Iterator[tuple[UInt64Array, Int64Array]]:
        """(addresses, numbers of their keys, -1 for others) of rows of some fragments, in batches; small fragments are
        read together.
        """
        for is_answered, run in groupby(fragments, lambda fragment: fragment.id in self._plan.matches):
            source = self._candidates if is_answered else self._scan
            for batch in source.read(run):
                addresses: UInt64Array = batch.column(batch.num_columns - 1).to_numpy()
                yield addresses, self._index.find([column_values(batch, path) for path in self._paths])


def _is_selective(manifest: Manifest, index: KeyIndex) -> bool:
    if not manifest.index_section or not 0 < index.num_keys <= _MAX_KEYS:
        return False
    num_rows = sum(message.physical_rows for message in manifest.fragments.messages)
    return num_rows >= index.num_keys * _ROWS_PER_KEY


def _condition(scan: Scan, paths: Sequence[tuple[str, ...]], index: KeyIndex) -> Expr | None:
    """A condition that all rows with one of the keys satisfy; None if no index can know it."""
    terms: list[Expr] = []
    for path, values in zip(paths, index.distinct_values, strict=True):
        dtype = to_arrow_type(find(scan.schema, path)[-1])
        if values.type == dtype and _is_exact(dtype):
            terms.append(InArray(Column(path), values))
    return None if not terms else terms[0] if len(terms) == 1 else And(tuple(terms))


def _is_exact(dtype: pa.DataType) -> bool:
    """Whether values of a type are equal only if their bytes are."""
    return bool(
        pt.is_integer(dtype)
        or pt.is_string(dtype)
        or pt.is_large_string(dtype)
        or pt.is_date32(dtype)
        or pt.is_timestamp(dtype)
    )
