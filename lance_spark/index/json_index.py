"""Indexes of the values at a path of a JSON column: the files are those of another kind of index, over these values.

All values that a segment knows are of one type, so it answers only for conditions on the path as that type.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_spark._proto import index_details_pb2
from lance_spark.errors import CorruptFileError
from lance_spark.expr.json_path.jsonb import Step
from lance_spark.expr.json_path.nodes import JsonValue
from lance_spark.expr.json_path.values import json_steps
from lance_spark.expr.nodes import And, Column, Comparison, Expr, In, InArray, IsNull, Like, Not, Or, StringMatch
from lance_spark.index.base import ScalarIndex
from lance_spark.index.bitmap import BITMAP_FILE, BitmapIndex
from lance_spark.index.btree import BTREE_FILE, BTreeIndex
from lance_spark.index.files import IndexFiles
from lance_spark.index.zone_map import ZONE_FILE, ZoneMapIndex

JSON_URL = "/lance.index.pb.JsonIndexDetails"

_VALUES: dict[type[ScalarIndex], tuple[str, str]] = {
    BTreeIndex: (BTREE_FILE, "values"),
    BitmapIndex: (BITMAP_FILE, "keys"),
    ZoneMapIndex: (ZONE_FILE, "min"),
}
"""The file and the column that have the values, for each kind that can be over a path."""

_BY_URL = {kind.type_url.lower(): kind for kind in _VALUES}


@dataclass(frozen=True, slots=True)
class JsonTarget:
    """Path of a JSON index, and the kind of index over the values at it.

    Attributes:
        path: as it was written.
        index_type: the kind of its files; None for one that this release does not search.
        details: of that kind.
    """

    path: str
    index_type: type[ScalarIndex] | None
    details: bytes

    @classmethod
    def of_details(cls, data: bytes) -> JsonTarget:
        """From the serialized details of a segment.

        Raises:
            CorruptFileError: they are none.
        """
        try:
            message = index_details_pb2.JsonIndexDetails.FromString(data)
        except DecodeError as error:
            raise CorruptFileError(f"not the details of a JSON index: {error}") from error
        target = message.target_details
        return cls(message.path, _BY_URL.get(target.type_url.lower()), target.value)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The keys and positions of the path.

        Raises:
            InvalidInputError: the path is written in another way than this release reads.
        """
        return json_steps(self.path if self.path.startswith("$") else f"$.{self.path}")


def value_type(files: IndexFiles, index_type: type[ScalarIndex]) -> pa.DataType | None:
    """The type of the values of a segment; None if its file has none.

    Raises:
        LanceError: the file is missing or broken.
    """
    file, column = _VALUES[index_type]
    return files.open(file).type_of(column)


def on_value(expr: Expr) -> tuple[JsonValue, Expr] | None:
    """The one value of a document that a condition reads, and the condition on a column called like it; None if it
    reads several, or anything else.
    """
    values = {node.to_sql(): node for node in expr.walk() if isinstance(node, JsonValue)}
    if len(values) != 1:
        return None
    (text, value), *_ = values.items()
    rewritten = _rewritten(expr, value, Column((text,)))
    return None if rewritten is None else (value, rewritten)


def _rewritten(expr: Expr, value: JsonValue, column: Column) -> Expr | None:
    if expr == value:
        return column
    if not any(isinstance(node, (JsonValue, Column)) for node in expr.walk()):
        return expr
    if isinstance(expr, (And, Or)):
        terms = [_rewritten(term, value, column) for term in expr.terms]
        known = tuple(term for term in terms if term is not None)
        return type(expr)(known) if len(known) == len(terms) else None
    if isinstance(expr, Comparison):
        left, right = _rewritten(expr.left, value, column), _rewritten(expr.right, value, column)
        return None if left is None or right is None else Comparison(expr.op, left, right)
    inner = _rewritten(expr.children()[0], value, column) if expr.children() else None
    if inner is None:
        return None
    if isinstance(expr, (Not, IsNull)):
        return type(expr)(inner)
    if isinstance(expr, In):
        return In(inner, expr.options)
    if isinstance(expr, InArray):
        return InArray(inner, expr.values)
    if isinstance(expr, StringMatch):
        return StringMatch(expr.op, inner, expr.text)
    return Like(inner, expr.pattern, expr.escape) if isinstance(expr, Like) else None
