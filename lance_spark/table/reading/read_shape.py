"""Reads whose result is not the rows as they are stored: computed columns, and rows in the order of columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.columns import field_at, resolve_names
from lance_spark.expr.evaluate import evaluate_column
from lance_spark.expr.nodes import Column, Expr, referenced_columns
from lance_spark.expr.sql.parse import parse, to_expr
from lance_spark.expr.values import no_rows
from lance_spark.schema.projection import quoted
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.first_rows import FirstRows, SortKey, first_rows
from lance_spark.table.reading.index_candidates import Candidates
from lance_spark.table.reading.named_columns import may_name_fields, named_paths
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.selection import FragmentRows
from lance_spark.table.reading.system_columns import SYSTEM_FIELDS, flagged

ReadColumns: TypeAlias = Sequence[str] | Mapping[str, str | Expr]
"""The columns of a result: their names, or names with the expressions of their values."""

_KEPT_AT_LEAST = 1 << 16


def sort_keys(order_by: Sequence[Any], schema: pa.Schema) -> tuple[SortKey, ...]:
    """The keys of an order.

    Args:
        order_by: names of columns, for ascending order with nulls last; ``(name, "ascending" or "descending")``; and
            objects with `column_name`, `ascending` and `nulls_first`, such as the reference library's.
        schema: the columns of the table.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: not an order, or a column whose values have none.
    """
    if isinstance(order_by, (str, bytes)) or not isinstance(order_by, Sequence):
        raise InvalidInputError(f"order_by is a list of columns, got {order_by!r}")
    return tuple(_sort_key(item, schema) for item in order_by)


def _sort_key(item: Any, schema: pa.Schema) -> SortKey:
    name, ascending, nulls_first = item, True, False
    if isinstance(item, tuple) and len(item) == 2 and item[1] in ("ascending", "descending"):
        name, ascending = item[0], item[1] == "ascending"
    elif hasattr(item, "column_name"):
        name, ascending, nulls_first = item.column_name, bool(item.ascending), bool(item.nulls_first)
    if not isinstance(name, str):
        raise InvalidInputError(f"{item!r} is no column to order by; write its name, or (name, 'descending')")
    path = _path(name, schema)
    if path[0] not in schema.names:
        raise InvalidInputError(f"rows cannot be ordered by {name}")
    dtype = field_at(schema, path).type
    if pa.types.is_nested(dtype) or isinstance(dtype, pa.ExtensionType):
        raise InvalidInputError(f"{name} is {dtype}, whose values have no order")
    return SortKey(path, not ascending, nulls_first)


@dataclass(frozen=True)
class ReadShape:
    """Columns, expressions and order by which the rows of a scan become the result.

    Attributes:
        read: the columns to read, for the result, for expressions and for the order; None for all.
        computed: the columns of the result and their expressions; None if they are read as they are.
        keys: the order of the rows; empty for the order of the table.
        dropped: columns that are read for the order alone.
        system: system columns that the caller adds to computed ones.
    """

    read: list[str] | None
    computed: Mapping[str, Expr] | None
    keys: tuple[SortKey, ...]
    dropped: frozenset[str] = frozenset()
    system: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        columns: ReadColumns | None,
        order_by: Sequence[Any] | None,
        schema: pa.Schema,
        *,
        with_row_id: bool = False,
        with_row_address: bool = False,
    ) -> ReadShape:
        """The shape that a caller asks for of a table whose columns are stored as `schema`.

        Raises:
            NotFoundError, InvalidInputError: as `sort_keys`, and as `expr.sql.parse` for computed columns.
        """
        keys = sort_keys(order_by, schema) if order_by else ()
        if columns is None:
            return cls(None, None, keys)
        last = flagged(with_row_id, with_row_address)
        if not isinstance(columns, Mapping):
            read = [name for name in columns if name not in last]
            if may_name_fields(columns):
                fields = {name: Column(path) for name, path in named_paths(read, schema).items()}
                more = [quoted(path) for path in _unread(keys, [each.path for each in fields.values()])]
                return cls([*read, *more], fields, keys, system=last)
            more = [path[0] for path in _unread(keys, [_path(name, schema) for name in read])]
            return cls([*read, *more], None, keys, frozenset(more))
        computed = {name: to_expr(each) for name, each in columns.items()}
        paths = {path for each in computed.values() for path in referenced_columns(each)}
        tops = sorted({_path_of(path, schema)[0] for path in paths})
        more = [path[0] for path in _unread(keys, [(name,) for name in tops])]
        return cls([*tops, *more], computed, keys, system=last)

    def rows(
        self,
        parts: Sequence[tuple[Scan, Manifest]],
        schema: pa.Schema,
        limit: int | None,
        offset: int | None,
        *,
        use_scalar_index: bool,
    ) -> pa.Table:
        """The rows in the order of the keys.

        With a limit no more than four times as many rows as are returned are kept, or 65,536.

        Args:
            parts: a scan of `read` of each split, and its version.
            schema: of their batches.

        Raises:
            InvalidInputError: a negative number, or the filter fails on a value.
        """
        skip = offset or 0
        if skip < 0 or (limit is not None and limit < 0):
            raise InvalidInputError("limit and offset cannot be negative")
        most = None if limit is None else skip + limit
        kept: list[pa.RecordBatch] = []
        if most != 0:
            for scan, manifest in parts:
                for batch in _batches(scan, manifest, self.keys, most, use_scalar_index=use_scalar_index):
                    kept.append(batch)
                    if most is not None and sum(each.num_rows for each in kept) > max(4 * most, _KEPT_AT_LEAST):
                        kept = first_rows(pa.Table.from_batches(kept), self.keys, most).to_batches()
        return first_rows(pa.Table.from_batches(kept, schema=schema), self.keys, most)[skip:]

    def shaped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of the result, from a batch of `read` and the system columns that the caller adds.

        Raises:
            InvalidInputError: an expression fails on a value.
        """
        if self.computed is None:
            return batch.select([name for name in batch.schema.names if name not in self.dropped])
        columns = {name: evaluate_column(each, batch) for name, each in self.computed.items()}
        for name in self.system:
            columns[name] = (batch.column(name), batch.schema.field(name))
        if not columns:
            return batch.select([])
        schema = pa.schema([field.with_name(name) for name, (_, field) in columns.items()])
        return pa.RecordBatch.from_arrays([values for values, _ in columns.values()], schema=schema)

    def shaped_schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema of `shaped` batches."""
        return self.shaped(no_rows(schema)).schema

    def shaped_table(self, rows: pa.Table) -> pa.Table:
        """`shaped` of all rows of a table."""
        batches = list(self.all_shaped(rows.to_batches()))
        return pa.Table.from_batches(batches, schema=self.shaped_schema(rows.schema))

    def all_shaped(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """`shaped` of each batch."""
        return map(self.shaped, batches)


def _path(name: str, schema: pa.Schema) -> tuple[str, ...]:
    """The path of a column that a caller names."""
    parsed = Column((name,)) if name in schema.names else parse(name)
    if not isinstance(parsed, Column):
        raise InvalidInputError(f"{name!r} is no column; give a mapping of names and expressions to compute columns")
    return _path_of(parsed.path, schema)


def _path_of(path: tuple[str, ...], schema: pa.Schema) -> tuple[str, ...]:
    is_system = path[0] in SYSTEM_FIELDS and path[0] not in schema.names
    return path if is_system else resolve_names(schema, path)


def _unread(keys: Sequence[SortKey], read: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The paths of keys that are not among those that are read, one for each column."""
    missing = [key.path for key in keys if not any(key.path[: len(path)] == path for path in read)]
    return list(dict.fromkeys(missing))


def _batches(
    scan: Scan, manifest: Manifest, keys: tuple[SortKey, ...], most: int | None, *, use_scalar_index: bool
) -> Iterator[pa.RecordBatch]:
    """The rows of a split, or the first of them in no order."""
    if most is not None and scan.filter is None:
        return FirstRows(scan, keys, most).of(list(map(FragmentRows, manifest.fragments)))
    return Candidates.of(scan, manifest, use_scalar_index=use_scalar_index).read(manifest.fragments)
