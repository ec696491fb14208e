"""Values of identity columns for new rows.

Values are numbered from 0, and the table's config has the count of those that are used. Tasks do not ask each other:
task `t` of `n` takes the numbers `used + t`, `used + t + n`, `used + t + 2 * n`, and so on, so values differ, but are
neither without gaps nor in the order of rows. The commit sets the count behind the greatest number that a task took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.schema.arrow import to_arrow_field
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.generated import IDENTITY, Identity, identities_of
from lance_spark.schema.number_types import numpy_type
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.marks import IdentityMark, UsedValues, used_values
from lance_spark.table.writing.row_source import RowSource

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class UsedByTask:
    """The numbers that one task took. Travels to the driver.

    Attributes:
        task, num_tasks: which of how many tasks it was.
        counts: of each identity column, how many.
    """

    task: int
    num_tasks: int
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Column:
    """An identity column.

    Attributes:
        used: how many values are used; None if the table has no entry.
        is_counted: whether that is known; a table without rows needs no entry.
    """

    field: pa.Field
    identity: Identity
    used: int | None
    is_counted: bool


@dataclass(frozen=True, slots=True)
class IdentityColumns:
    """The identity columns of one version of a table. Travels to the tasks."""

    columns: tuple[_Column, ...] = ()

    @classmethod
    def of(cls, schema: LanceSchema, config: Mapping[str, str], has_rows: Callable[[], bool]) -> IdentityColumns:
        """Identity columns of a version with `schema`.

        Args:
            config: of the version; for a partitioned table of `__manifest`.
            has_rows: asked if the config does not say how many values are used.

        Raises:
            InvalidInputError: the metadata of a column, or its entry of the config, is damaged.
        """
        identities, columns = identities_of(schema), []
        for field in schema.fields if identities else ():
            if field.name in identities:
                identity = identities[field.name]
                used = used_values(config, identity.key)
                columns.append(_Column(to_arrow_field(field), identity, used, used is not None or not has_rows()))
        return cls(tuple(columns))

    @classmethod
    def of_version(cls, manifest: Manifest) -> IdentityColumns:
        """Identity columns of a version of a plain table. Raises as `of`."""
        return cls.of(manifest.schema, manifest.config, lambda: len(manifest.fragments) > 0)

    def __bool__(self) -> bool:
        return bool(self.columns)

    def with_columns(self, given: pa.Schema) -> pa.Schema:
        """The schema of rows with all identity columns, for rows with the columns `given`."""
        for column in self.columns:
            at = given.get_field_index(column.field.name)
            if at < 0:
                given = given.append(column.field)
            elif pa.types.is_null(given.field(at).type):
                given = given.set(at, column.field)
        return given

    def values(self, task: int = 0, num_tasks: int = 1) -> IdentityValues:
        """The values of one task."""
        return IdentityValues(self, task, num_tasks)

    def mark(self, used: Sequence[UsedByTask]) -> IdentityMark | None:
        """Config mark of the commit; None if no value was used.

        Raises:
            InvalidInputError: two tasks may have used the same numbers.
        """
        if len({item.task for item in used}) < len(used) or len({item.num_tasks for item in used}) > 1:
            raise InvalidInputError("two tasks of the write have used the same values of an identity column; repeat it")
        marks = {}
        for place, column in enumerate(self.columns):
            taken = [item for item in used if item.counts[place]]
            if taken:
                before = column.used or 0
                last = max(item.task + item.num_tasks * (item.counts[place] - 1) for item in taken)
                marks[column.identity.key] = UsedValues(column.field.name, column.used, before + last + 1)
        return IdentityMark(marks) if marks else None

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.field.name for column in self.columns]

    def counted(self, batches: Iterable[pa.RecordBatch]) -> IdentityMark | None:
        """Config mark that keeps the values of existing rows from new rows; None if the config already does.

        Args:
            batches: all rows of the table, in the identity columns.
        """
        import pyarrow.compute as pc

        last = [-1] * len(self.columns)
        for batch in batches:
            for place, column in enumerate(self.columns):
                ends = pc.min_max(batch.column(column.field.name))
                end = ends["max" if column.identity.step > 0 else "min"].as_py()
                if end is not None:
                    last[place] = max(last[place], (end - column.identity.start) // column.identity.step)
        marks = {}
        for column, number in zip(self.columns, last, strict=True):
            after = max(number + 1, column.used or 0)
            if after != column.used:
                marks[column.identity.key] = UsedValues(column.field.name, column.used, after)
        return IdentityMark(marks) if marks else None

    def check_kept(self, changed: Iterable[str]) -> None:
        """Passes if none of the columns that existing rows get new values in is GENERATED ALWAYS.

        Raises:
            InvalidInputError: one is.
        """
        names = set(changed)
        for column in self.columns:
            if column.field.name in names and not column.identity.allows_explicit:
                raise InvalidInputError(
                    f"the identity column {column.field.name!r} is GENERATED ALWAYS, so its values cannot be changed"
                )


def without_identities(source: RowSource) -> RowSource:
    """Rows that a table is made of, with identity columns of another table as plain ones: their values are given."""
    return RowSource(schema_without_identities(source.schema), source.batches)


def schema_without_identities(schema: pa.Schema) -> pa.Schema:
    """The columns of rows that a table is made of, those with an identity as plain ones."""
    key = IDENTITY.encode()
    if not any(key in (field.metadata or {}) for field in schema):
        return schema
    fields = [
        field.with_metadata({name: value for name, value in (field.metadata or {}).items() if name != key} or None)
        for field in schema
    ]
    return pa.schema(fields, metadata=schema.metadata)


class IdentityValues:
    """Gives the new rows of one task their values."""

    def __init__(self, identity: IdentityColumns, task: int, num_tasks: int) -> None:
        self._identity = identity
        self._columns = identity.columns
        self._task = task
        self._num_tasks = num_tasks
        self._counts = [0] * len(identity.columns)

    def __call__(self, rows: pa.RecordBatch, is_new: BoolArray | None = None) -> pa.RecordBatch:
        """The rows with a value in each identity column.

        Args:
            is_new: which rows are new; None if all are. The others keep their values.

        Raises:
            InvalidInputError: a new row has a value in a column that is GENERATED ALWAYS, or the type of the column has
                no more values.
        """
        for place, column in enumerate(self._columns):
            rows = self._with_values(rows, place, column, is_new)
        return rows

    def used(self) -> UsedByTask:
        """The numbers taken so far."""
        return UsedByTask(self._task, self._num_tasks, tuple(self._counts))

    def _with_values(
        self, rows: pa.RecordBatch, place: int, column: _Column, is_new: BoolArray | None
    ) -> pa.RecordBatch:
        import pyarrow.compute as pc

        name, at = column.field.name, rows.schema.get_field_index(column.field.name)
        if at < 0:
            return rows.append_column(column.field, self._next(place, rows.num_rows))
        given = rows.column(at)
        if pa.types.is_null(given.type):
            given = given.cast(column.field.type)
            rows = rows.set_column(at, column.field, given)
        if is_new is None:
            is_new = np.ones(rows.num_rows, np.bool_)
        is_null = given.is_null().to_numpy(zero_copy_only=False)
        if not column.identity.allows_explicit and bool((is_new & ~is_null).any()):
            raise InvalidInputError(
                f"a new row has a value in the identity column {name!r}, which is GENERATED ALWAYS; leave the column "
                "out"
            )
        is_missing = is_new & is_null
        if not is_missing.any():
            return rows
        new = self._next(place, int(is_missing.sum())).cast(given.type)
        return rows.set_column(at, rows.schema.field(at), pc.replace_with_mask(given, pa.array(is_missing), new))

    def _next(self, place: int, count: int) -> pa.Array:
        """The next values of a column."""
        column = self._columns[place]
        if not column.is_counted:
            raise InvalidInputError(
                f"the table does not say which values of the identity column {column.field.name!r} are used; another "
                "library has copied or filled it. Count them by CALL system.sync_identity(table => ...)"
            )
        first = (column.used or 0) + self._task + self._num_tasks * self._counts[place]
        identity, stride = column.identity, column.identity.step * self._num_tasks
        start = identity.start + identity.step * first
        limits = np.iinfo(numpy_type(column.field.type))
        end = start + stride * max(count - 1, 0)
        if count and not (limits.min <= start <= limits.max and limits.min <= end <= limits.max):
            raise InvalidInputError(
                f"the identity column {column.field.name!r} of type {column.field.type} has no more values; the next "
                f"would be {start}"
            )
        self._counts[place] += count
        if count < 2:
            return pa.array([start] * count, column.field.type)
        return pa.array(start + stride * np.arange(count, dtype=np.int64), column.field.type)
