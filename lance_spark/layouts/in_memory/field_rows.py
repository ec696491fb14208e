"""Single rows of fields of all types, from a file in memory: pages are not looked at again at each read.

For structs, lists and maps, and for leaves whose values are decoded by chunk. Other leaves are copied by fewer calls:
see `single_rows` and `string_rows`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.arrow_take import take
from lance_spark.layouts.base import EncodedColumn
from lance_spark.layouts.in_memory.listed_values import ListedValues
from lance_spark.layouts.merge import merge_paths
from lance_spark.layouts.mini_block.prepared_run import PreparedLeaf
from lance_spark.layouts.path import LeafPath
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.columns import paths
from lance_spark.schema.field import Field, FieldId


@dataclass(frozen=True)
class FieldRows:
    """A top-level field.

    Attributes:
        field: the field.
        leaves: the pages of each of its leaves.
        file_size: of the file, in bytes.
        is_leaf: whether the array of the one leaf is that of the field.
    """

    field: Field
    leaves: Sequence[PreparedLeaf]
    file_size: int
    is_leaf: bool

    @classmethod
    def of(cls, field: Field, columns: Mapping[FieldId, EncodedColumn], data: pa.Buffer) -> FieldRows | None:
        """A field of the file `data`; None if it has no leaves, or leaves without a column or with other pages.

        A field that contradicts the format is left to the general way, as by `SingleRows`.
        """
        leaves = []
        try:
            for path in paths(field):
                column = columns.get(path[-1].id)
                leaf = None if column is None else PreparedLeaf.of(LeafPath.of(path), column, data)
                if leaf is None:
                    return None
                leaves.append(leaf)
        except (CorruptFileError, UnsupportedFeatureError):
            return None
        if not leaves:
            return None
        data_type = leaves[0].path.data_type
        is_leaf = len(leaves) == 1 and data_type.equals(to_arrow_type(field), check_metadata=True)
        return cls(field, leaves, data.size, is_leaf)

    @property
    def num_bytes(self) -> int:
        """Memory of the tables and dictionaries, in bytes."""
        return sum([leaf.num_bytes for leaf in self.leaves])

    @cached_property
    def value_bits(self) -> int:
        """About how many bits of the file are a value."""
        return 8 * sum([leaf.encoded_bytes for leaf in self.leaves]) // self.leaves[0].ends[-1]

    def of_rows(self, data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        """The values of `rows` (int64[n], in any order); None if the pages contradict themselves."""
        if data.size < self.file_size or len(rows) == 0:
            return None
        try:
            if all(leaf.reads_any_order(rows) for leaf in self.leaves):
                return self._read(data, rows)
            wanted, order = ascending(rows)
            found = self._read(data, wanted)
        except CorruptFileError:
            # The general way says where.
            return None
        return found if found is None or order is None else take(found, order)

    def listed(self, data: pa.Buffer, rows: Int64Array) -> ListedValues | None:
        """The values of `rows` (int64[n]) of a field of lists; None as of `PreparedLeaf.listed`."""
        if data.size < self.file_size or len(rows) == 0 or not self.is_leaf:
            return None
        try:
            return self.leaves[0].listed(data, rows)
        except CorruptFileError:
            return None

    def _read(self, data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        found = [leaf.read(data, rows) for leaf in self.leaves]
        arrays = [array for array in found if array is not None]
        if len(arrays) < len(found):
            return None
        return arrays[0] if self.is_leaf else merge_paths(self.field, arrays, len(rows))


def ascending(rows: Int64Array) -> tuple[Int64Array, Int64Array | None]:
    """(the distinct ones of `rows`, ascending; the place of each of `rows` among them, None if they are the same)."""
    if len(rows) < 2 or bool((rows[1:] > rows[:-1]).all()):
        return rows, None
    wanted, order = np.unique(rows, return_inverse=True)
    return wanted, order
