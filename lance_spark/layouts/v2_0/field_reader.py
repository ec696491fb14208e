"""Reads top-level fields of 2.0 files.

The columns of a field follow from its logical type and, where that is ambiguous, from the columns themselves: a packed
struct is a struct whose column has packed rows, a blob field one with the column encoding of blobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.base import EncodedColumn, FieldReads, FieldsReads, RowRanges, side_by_side
from lance_spark.layouts.v2_0.blob import BlobNode
from lance_spark.layouts.v2_0.column import Column
from lance_spark.layouts.v2_0.nodes import LeafNode, ListedBytesNode, ListNode, MissingNode, Node, StructNode, merged
from lance_spark.layouts.v2_0.packed_struct import PackedStruct
from lance_spark.layouts.v2_0.registry import holds_blobs
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.columns import is_blob
from lance_spark.schema.field import Field, FieldId
from lance_spark.schema.logical_type import LARGE_LIST_TYPES, LIST_TYPES

_Columns = Mapping[FieldId, EncodedColumn]


class NodeFields:
    """See `lance_spark.layouts.base.FieldsReader`.

    Args:
        fields: the top-level fields to read.
        columns: the columns of the file by the id of the field that owns them.
    """

    def __init__(self, fields: Sequence[Field], columns: _Columns) -> None:
        self._nodes = [checked_node(field, columns) for field in fields]

    def __call__(self, rows: RowRanges) -> FieldsReads:
        wanted = merged(rows)
        return side_by_side([node.read(wanted) for node in self._nodes])


def read_field(field: Field, columns: _Columns, rows: RowRanges) -> FieldReads:
    """The values of a top-level `field` at `rows`."""
    return checked_node(field, columns).read(merged(rows))


def checked_node(field: Field, columns: _Columns) -> Node:
    """A top-level field with its columns.

    Raises:
        CorruptFileError: the columns of the field are inconsistent.
    """
    node = _node(field, columns)
    encoded = columns.get(field.id)
    if encoded is not None and node.num_values != encoded.num_rows:
        raise CorruptFileError(
            f"field {field.name!r} has {node.num_values} values in a file of {encoded.num_rows} rows",
            column=encoded.index,
        )
    return node


def _node(field: Field, columns: _Columns) -> Node:
    """The field with its columns.

    Raises:
        CorruptFileError: the columns of the field are inconsistent.
    """
    encoded = columns.get(field.id)
    if encoded is None:
        if any(below.id in columns for below in field.walk()):
            raise CorruptFileError(f"field {field.name!r} has columns below it, but none of its own")
        return MissingNode(to_arrow_type(field))
    column = Column.of(encoded)
    return _BUILDERS.get(field.logical_type, _leaf)(field, column, columns)


def _leaf(field: Field, column: Column, columns: _Columns) -> Node:
    data_type = to_arrow_type(field)
    if holds_blobs(column.encoded.type_url, column.encoded.message):
        return BlobNode(data_type, column)
    if column.encoded.items is not None:
        return ListedBytesNode.of(data_type, column, Column.of(column.encoded.items))
    return LeafNode(data_type, column)


def _struct(field: Field, column: Column, columns: _Columns) -> Node:
    if is_blob(field):
        if column.encoded.items is not None:
            raise UnsupportedFeatureError(
                f"column {field.name!r} has its values in pages, as the first releases of 2.0 wrote blobs, so there "
                "are no descriptions of them; to_table and take read the values with blob_handling='all_binary'",
                feature="descriptions of blobs",
            )
        return _leaf(field, column, columns)
    is_packed = column.encoded.pages and isinstance(column.encoding(0), PackedStruct)
    if is_packed or not field.children:
        return LeafNode(to_arrow_type(field), column)
    members = tuple(_node(member, columns) for member in field.children)
    return StructNode(to_arrow_type(field), column, members)


def _list(field: Field, column: Column, columns: _Columns) -> Node:
    data_type: pa.DataType = to_arrow_type(field)
    return ListNode.of(data_type, column, _node(field.children[0], columns))


_BUILDERS: dict[str, Callable[[Field, Column, _Columns], Node]] = {
    "struct": _struct,
    **dict.fromkeys(LIST_TYPES | LARGE_LIST_TYPES, _list),
}
