"""Conditions of a merge: which of the rows that match are changed, and which of those that do not are deleted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import InvalidInputError
from lance_spark.expr.columns import resolve_names
from lance_spark.expr.evaluate import check_filter, evaluate_filter
from lance_spark.expr.nodes import Column, Expr, referenced_columns
from lance_spark.layouts.arrow_take import take
from lance_spark.layouts.base import RowRanges
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.field import LanceSchema
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.reading.blobs.blob_columns import with_blob_descriptors
from lance_spark.table.reading.decoding.rows import no_columns
from lance_spark.table.reading.fragment_columns import SelectedFields
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.index_candidates import Candidates
from lance_spark.table.row_level.delete import split_scan
from lance_spark.table.rows.fragment_runs import by_fragment
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.source import Split

TARGET, SOURCE = "target", "source"
_WINDOW_ROWS = 1 << 16


class MatchedCondition:
    """A condition on rows of the table, ``target.x``, and the rows of the source that match them, ``source.x``.

    Args:
        schema: the columns of the table.
        source: the rows of the source, in the types of the table.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: a column without one of the two prefixes, or the condition is invalid.
    """

    def __init__(self, condition: Expr, schema: LanceSchema, source: pa.RecordBatch) -> None:
        self._condition = condition
        self._schema = schema
        self._source = source
        sides = {TARGET: to_arrow_schema(schema), SOURCE: source.schema}
        for path in referenced_columns(condition):
            if path[0].lower() not in sides or len(path) < 2:
                raise InvalidInputError(
                    f"{Column(path)} in the condition of a merge: write {TARGET}.name for a column of the table, "
                    f"{SOURCE}.name for one of the source"
                )
        self._names = {
            side: {
                resolve_names(known, path[1:2])[0] for path in referenced_columns(condition) if path[0].lower() == side
            }
            for side, known in sides.items()
        }
        check_filter(condition, pa.schema([(side, pa.struct(list(known))) for side, known in sides.items()]))

    def holds(self, split: Split, addresses: UInt64Array, source_rows: Int64Array) -> npt.NDArray[np.bool_]:
        """bool[n]: for which of some rows of a split the condition is true.

        Args:
            addresses: uint64[n], ascending: rows of the split.
            source_rows: int64[n]: the row of the source that each of them matches.
        """
        schema = with_blob_descriptors(self._schema, data_format(split.manifest), with_source=True)
        fields = [field for field in schema.fields if field.name in self._names[TARGET]]
        names = [name for name in self._source.schema.names if name in self._names[SOURCE]]
        known = {
            TARGET: list(to_arrow_schema(LanceSchema(tuple(fields)))),
            SOURCE: [self._source.schema.field(name) for name in names],
        }
        fragments = split.manifest.fragments
        places = {message.id: place for place, message in enumerate(fragments.messages)}
        found = np.zeros(len(addresses), np.bool_)
        start, selected = 0, SelectedFields(tuple(fields))
        for fragment_id, offsets in by_fragment(addresses):
            columns = FragmentReader(fragments[places[fragment_id]], split.bases).columns(selected)
            for first in range(0, len(offsets), _WINDOW_ROWS):
                part = offsets[first : first + _WINDOW_ROWS]
                stop = start + len(part)
                columns_of = {SOURCE: [take(self._source.column(name), source_rows[start:stop]) for name in names]}
                if fields:
                    columns_of[TARGET] = [
                        pa.concat_arrays(each.chunks) for each in columns.read(RowRanges.of_numbers(part))
                    ]
                batch = pa.RecordBatch.from_pydict(
                    {side: _struct(arrays, known[side]) for side, arrays in columns_of.items() if arrays}
                )
                if not batch.num_columns:
                    batch = no_columns(len(part))
                found[start:stop] = evaluate_filter(self._condition, batch).to_numpy(zero_copy_only=False)
                start = stop
        return found


def _struct(arrays: Sequence[pa.Array], fields: Sequence[pa.Field]) -> pa.StructArray:
    typed = [field.with_type(array.type) for field, array in zip(fields, arrays, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=typed)


def matching(schema: LanceSchema, split: Split, condition: Expr, addresses: UInt64Array) -> UInt64Array:
    """Ascending: those of some rows of a split for which a condition on columns of the table is true.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: the condition is invalid, or fails on a value.
    """
    scan = Candidates.of(split_scan(schema, split, condition), split.manifest, checks_exact=True)
    parts = [batch.column(0).to_numpy() for batch in scan.read(split.manifest.fragments)]
    found: UInt64Array = np.intersect1d(addresses, np.concatenate([np.empty(0, np.uint64), *parts]))
    return found
