"""Row groups of a 0.1 file and the page table (Lance file format specification, version 0.1).

A file is a sequence of row groups ("batches"). Each field has one page in each of them. The page table has for every
field id from the smallest to the largest of the file, and for every row group, two int64: the position of the page and
its length in items. Structs and ids without a field have (0, 0).

>>> table = np.array([[[8, 3], [40, 2]], [[20, 4], [48, 3]]])
>>> groups = RowGroups(np.array([0, 3, 5]), first_field_id=7, table=table)
>>> groups.page(FieldId(8), 1)
Page(position=48, num_items=3)
>>> groups.touched(RowRanges.of(2, 4))
[(0, RowRanges(starts=array([2]), stops=array([3]))), (1, RowRanges(starts=array([0]), stops=array([1])))]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lance_spark.encodings.blocks import Int64Array
from lance_spark.layouts.base import RowRanges
from lance_spark.schema.field import FieldId


class Page(NamedTuple):
    """The values of one field in one row group: `num_items` values from `position` of the file."""

    position: int
    num_items: int


@dataclass(frozen=True, slots=True, eq=False)
class RowGroups:
    """The row groups of a file.

    Attributes:
        offsets: int64[num_groups + 1], the first row of each group and the number of rows of the file.
        first_field_id: the field of the first row of `table`.
        table: int64[num_field_ids, num_groups, 2], (position, number of items) of each page.
        max_items: upper bound of the values of a field in the file: each takes at least one bit.
    """

    offsets: Int64Array
    first_field_id: int
    table: Int64Array
    max_items: int = 1 << 31

    def page(self, field_id: FieldId, group: int) -> Page | None:
        """The page of a field in a row group; None if the page table does not have the field."""
        place = field_id - self.first_field_id
        if not 0 <= place < len(self.table):
            return None
        position, num_items = self.table[place, group].tolist()
        return Page(position, num_items)

    def touched(self, rows: RowRanges) -> list[tuple[int, RowRanges]]:
        """The groups with any of `rows`, and the rows within each group."""
        if len(rows.starts) == 0:
            return []
        first = int(np.searchsorted(self.offsets, rows.starts[0], "right")) - 1
        last = int(np.searchsorted(self.offsets, rows.stops[-1], "left"))
        bounds = self.offsets.tolist()
        found = [(group, rows.within(bounds[group], bounds[group + 1])) for group in range(first, last)]
        return [(group, inside) for group, inside in found if len(inside.starts)]
