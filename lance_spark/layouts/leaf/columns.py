"""Top-level fields of files whose columns are leaves (versions 2.1 and 2.2).

Structs, lists and maps own no column; they are encoded in the levels of each leaf below them. The leaves of all fields
are read concurrently, each to path arrays, and then merged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lance_spark.layouts.base import EncodedColumn, FieldsReads, RowRanges
from lance_spark.layouts.merge import merge_columns
from lance_spark.layouts.page_runs import Leaf, Selection, read_leaves
from lance_spark.layouts.path import LeafPath
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.columns import paths
from lance_spark.schema.field import Field, FieldId


class LeafFields:
    """See `lance_spark.layouts.base.FieldsReader`.

    Args:
        fields: the top-level fields to read.
        columns: the columns of the file by the id of the field that owns them.
    """

    def __init__(self, fields: Sequence[Field], columns: Mapping[FieldId, EncodedColumn]) -> None:
        self._leaves: list[Leaf] = []
        self._to_merge: list[tuple[Field, int] | None] = []
        for field in fields:
            held = [Leaf(LeafPath.of(path), columns[path[-1].id]) for path in paths(field) if path[-1].id in columns]
            is_whole = len(held) == 1 and held[0].path.data_type.equals(to_arrow_type(field), check_metadata=True)
            self._to_merge.append(None if is_whole else (field, len(held)))
            self._leaves += held

    def __call__(self, rows: RowRanges) -> FieldsReads:
        return self._merged(rows.num_rows, [Selection(self._leaves, rows)])

    def of_files(self, files: Sequence[tuple[LeafFields, RowRanges, int]]) -> FieldsReads:
        """The fields of several files that have the same leaves, one file behind the other.

        Args:
            files: what reads the fields of each file (the first is this object), the rows of the file, and the place
                where it begins, to which requests refer.
        """
        num_rows = sum([rows.num_rows for _, rows, _ in files])
        return self._merged(num_rows, [Selection(fields._leaves, rows, start) for fields, rows, start in files])

    def _merged(self, num_rows: int, files: Sequence[Selection]) -> FieldsReads:
        arrays = iter((yield from read_leaves(files)))
        return [
            next(arrays)
            if parts is None
            else merge_columns(parts[0], [next(arrays) for _ in range(parts[1])], num_rows)
            for parts in self._to_merge
        ]
