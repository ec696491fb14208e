"""Few rows of a scan, copied from files in memory with the columns of its filter, which is evaluated on the copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.expr.evaluate import evaluate_filter
from lance_spark.expr.values import no_rows
from lance_spark.index.spans import span_of
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.remembered import Remembered
from lance_spark.table.bases import Bases
from lance_spark.table.reading.decoding.columns import ReadColumns
from lance_spark.table.reading.decoding.single_rows import SingleRowColumns
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.rows.fragment import DataFragment

_copies: Remembered[SingleRowColumns] = Remembered()


def copies_to_check(
    columns: ReadColumns, bases: Bases, opened: Callable[[DataFragment], FragmentReader]
) -> SingleRowColumns:
    """Reader that copies the columns of a scan and of its filter; shared by all filters of the same columns.

    Args:
        opened: a fragment, open for reading.
    """

    def make() -> SingleRowColumns:
        fields, asked = columns.decoded.fields, {field.name: field for field in columns.returned.projection.fields}
        # Of a struct the filter can read other members than the output has.
        are_same = all(asked.get(field.name, field) == field for field in fields)
        return SingleRowColumns.of_fields(fields if are_same else (), bases, opened, stable_row_ids=False)

    if columns.plain_names is None:
        return SingleRowColumns(None, bases, opened, stable_row_ids=False)
    return _copies((columns.returned.schema, columns.decoded, columns.returned.projection, bases), None, make)


def copied_rows(
    columns: ReadColumns,
    copies: SingleRowColumns,
    output: SingleRowColumns,
    wanted: Sequence[tuple[DataFragment, Int64Array]],
    most: int,
    time_zone: str,
) -> pa.RecordBatch | None:
    """The rows at offsets (int64[n], ascending for a filter) of fragments that the filter keeps, in one batch.

    None if they cannot be read by copies of single rows, or are more than `most`.

    Args:
        columns: columns of the scan.
        copies: copies the output columns if there is no filter, and `columns.decoded` if there is one.
        output: copies the output columns.
        time_zone: of the filter.

    Raises:
        LanceError: a file is missing or contradicts the format.
        InvalidInputError: the filter fails on a value.
    """
    if columns.filter is None:
        few = sum([len(offsets) for _, offsets in wanted]) <= most
        return copies.batch(wanted, columns.returned.arrow_schema) if few else None
    names = columns.plain_names
    inside = _in_span(columns, copies, wanted)
    if inside is not None and sum([len(offsets) for _, offsets in inside]) <= most:
        schema = columns.returned.arrow_schema
        return output.batch(inside, schema) if inside else no_rows(schema)
    found = copies.columns(wanted)
    if names is None or found is None:
        return None
    batch = pa.RecordBatch.from_arrays(found, list(names))
    for stage in columns.stages:
        keep = evaluate_filter(stage.condition, batch, time_zone=time_zone)
        batch = batch if keep.true_count == len(keep) else batch.filter(keep)
    if batch.num_rows > most:
        return None
    arrays = [batch.column(names[name]) for name in columns.returned.names]
    return pa.RecordBatch.from_arrays(arrays, schema=columns.returned.arrow_schema)


def _in_span(
    columns: ReadColumns, copies: SingleRowColumns, wanted: Sequence[tuple[DataFragment, Int64Array]]
) -> list[tuple[DataFragment, Int64Array]] | None:
    """The rows whose value is in the span that the filter is; None for other filters, and for values that have to be
    copied to be compared.
    """
    names, fields = columns.plain_names, columns.filter_fields
    if columns.filter is None or names is None or len(fields) != 1:
        return None
    span = span_of(columns.filter, to_arrow_type(fields[0]))
    if span is None:
        return None
    found = []
    for fragment, offsets in wanted:
        inside = copies.offsets_in(fragment, offsets, names[fields[0].name], span)
        if inside is None:
            return None
        found += [(fragment, inside)] if len(inside) else []
    return found
