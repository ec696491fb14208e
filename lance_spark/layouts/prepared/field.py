"""Single rows of a top-level field of an open file, from the file in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.arrow_values import null_rows
from lance_spark.layouts.base import EncodedColumn
from lance_spark.layouts.merge import merge_paths
from lance_spark.layouts.page_form import ListedValues
from lance_spark.layouts.path import LeafPath
from lance_spark.layouts.prepared.leaf import PreparedLeaf
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.columns import paths
from lance_spark.schema.field import Field, FieldId


class PreparedField(ABC):
    """A field of one file, which its open file keeps."""

    @property
    @abstractmethod
    def num_bytes(self) -> int:
        """Memory of tables and dictionaries, in bytes."""

    @property
    @abstractmethod
    def value_bits(self) -> int:
        """About how many bits of the file are a value."""

    @property
    @abstractmethod
    def most_rows(self) -> int:
        """See `Run.most_rows`."""

    def pick(self, data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        """The values of `rows` (int64[n], at least one, in any order) of the file `data`.

        None if strings may be large, there is no such row or a page is damaged: the page reader decodes the rows, or
        raises an error that names the page.
        """
        try:
            return self._pick(data, rows)
        except CorruptFileError:
            return None

    @abstractmethod
    def _pick(self, data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        """`pick`, which may raise."""

    def listed(self, data: pa.Buffer, rows: Int64Array) -> ListedValues | None:
        """The lists of `rows` without Arrow's arrays; None as `pick`, and for other fields (`Run.listed`)."""
        return None


@dataclass(frozen=True)
class Nulls(PreparedField):
    """A field that the file does not have, or whose type has no other value.

    Attributes:
        data_type: of the field.
        num_rows: of the file.
    """

    data_type: pa.DataType
    num_rows: int

    num_bytes = value_bits = most_rows = 0

    def _pick(self, data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        if int(rows.min()) < 0 or int(rows.max()) >= self.num_rows:
            return None
        return null_rows(len(rows), self.data_type)


@dataclass(frozen=True)
class LeafField(PreparedField):
    """A field whose array is that of its one leaf."""

    leaf: PreparedLeaf

    @property
    def num_bytes(self) -> int:
        return self.leaf.num_bytes

    @cached_property
    def value_bits(self) -> int:
        return 8 * self.leaf.encoded_bytes // self.leaf.num_rows

    @property
    def most_rows(self) -> int:
        return self.leaf.most_rows

    def _pick(self, data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        return self.leaf.pick(data, rows)

    def listed(self, data: pa.Buffer, rows: Int64Array) -> ListedValues | None:
        try:
            return self.leaf.listed(data, rows)
        except CorruptFileError:
            return None


@dataclass(frozen=True)
class MergedField(PreparedField):
    """A field with several leaves."""

    field: Field
    leaves: Sequence[PreparedLeaf]

    @property
    def num_bytes(self) -> int:
        return sum([leaf.num_bytes for leaf in self.leaves])

    @cached_property
    def value_bits(self) -> int:
        return 8 * sum([leaf.encoded_bytes for leaf in self.leaves]) // self.leaves[0].num_rows

    @property
    def most_rows(self) -> int:
        return min([leaf.most_rows for leaf in self.leaves])

    def _pick(self, data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        arrays = []
        for leaf in self.leaves:
            array = leaf.pick(data, rows)
            if array is None:
                return None
            arrays.append(array)
        return merge_paths(self.field, arrays, len(rows))


def prepared_field(field: Field, columns: Mapping[FieldId, EncodedColumn], data: pa.Buffer) -> PreparedField | None:
    """A top-level field of the file `data`, of version 2.1 or later; None if the page reader has to read it.

    A field that contradicts the format is left to the page reader, too: it says which page is damaged, and reads the
    rows of the others.

    Args:
        columns: of each of its leaves.
    """
    leaves = []
    try:
        data_type = to_arrow_type(field)
        for path in paths(field):
            column = columns.get(path[-1].id)
            if column is None:
                return None
            if data_type == pa.null():
                return Nulls(pa.null(), sum([page.num_rows for page in column.pages]))
            leaf = PreparedLeaf.of(LeafPath.of(path), column, data)
            if leaf is None:
                return None
            leaves.append(leaf)
    except (CorruptFileError, UnsupportedFeatureError):
        return None
    if len(leaves) == 1 and leaves[0].data_type.equals(data_type, check_metadata=True):
        return LeafField(leaves[0])
    return MergedField(field, leaves) if leaves else None
