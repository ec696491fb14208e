"""Builds indexes of the values at a path of a JSON column; `index.json_index` describes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import pyarrow as pa
import pyarrow.types as pt

from lance_spark._proto import index_details_pb2
from lance_spark.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_spark.expr.json_path.jsonb import Step, scalar_at
from lance_spark.expr.json_path.values import JsonKind, json_steps, json_values
from lance_spark.index.base import IndexKind, ScalarIndex
from lance_spark.index.bitmap import BitmapIndex
from lance_spark.index.btree import BTreeIndex
from lance_spark.index.builders.base import IndexBuilder, IndexedRows, OldSegment, Parameters
from lance_spark.index.builders.bitmap import BitmapBuilder
from lance_spark.index.builders.btree import BTreeBuilder
from lance_spark.index.builders.output import SegmentOutput
from lance_spark.index.builders.zone_map import ZoneMapBuilder
from lance_spark.index.files import IndexFiles
from lance_spark.index.json_index import JSON_URL, JsonTarget, value_type
from lance_spark.index.zone_map import ZoneMapIndex

_TARGETS: dict[str, type[IndexBuilder]] = {"btree": BTreeBuilder, "bitmap": BitmapBuilder, "zonemap": ZoneMapBuilder}


class _JsonBTree(BTreeIndex):
    type_name = "JSON"
    type_url = JSON_URL
    max_version = -1  # Segments are never merged: their values can be of different types.


class _JsonBitmap(BitmapIndex):
    type_name = "JSON"
    type_url = JSON_URL
    max_version = -1


class _JsonZoneMap(ZoneMapIndex):
    type_name = "JSON"
    type_url = JSON_URL
    max_version = -1


class JsonBuilder(IndexBuilder):
    """JSON. `path` is where the values are, `target_index_type` the kind of index over them; others are that kind's.

    Segments are built from the data again instead of being merged.
    """

    index_type: ClassVar[type[ScalarIndex]] = _JsonBTree
    target_type: ClassVar[type[IndexBuilder]] = BTreeBuilder
    defaults: ClassVar[Mapping[str, object]] = {"path": "$", "target_index_type": "btree"}
    binary_is_json = True

    @classmethod
    def made(cls, dtype: pa.DataType, parameters: Parameters) -> IndexBuilder:
        """The builder for the kind of index that the parameters name."""
        return _BUILDERS[str(parameters.get("target_index_type", "btree"))](dtype, parameters)

    @classmethod
    def kind_in(cls, details: bytes) -> type[IndexKind] | None:
        try:
            return JsonTarget.of_details(details).index_type
        except CorruptFileError:
            return None

    @classmethod
    def supports(cls, dtype: pa.DataType) -> bool:
        return bool(pt.is_large_binary(dtype))

    @classmethod
    def version(cls, *, stable_row_ids: bool) -> int:
        if stable_row_ids and cls.target_type is BTreeBuilder:
            # The reference library has no such index, so nothing is known of how it would read one.
            raise UnsupportedFeatureError(
                "a JSON index over btree is not possible in a table with stable row ids; choose target_index_type "
                "bitmap or zonemap",
                feature="JSON index",
            )
        return cls.target_type.version(stable_row_ids=stable_row_ids)

    @classmethod
    def checked(cls, parameters: Parameters) -> dict[str, object]:
        path = parameters.get("path")
        kind = str(parameters.get("target_index_type", "btree")).lower()
        if not isinstance(path, str) or kind not in _TARGETS:
            raise InvalidInputError(
                f"a JSON index needs path, such as '$.key', and target_index_type, one of {', '.join(_TARGETS)}; got "
                f"{path!r} and {kind!r}"
            )
        json_steps(path)
        others = {name: value for name, value in parameters.items() if name not in cls.defaults}
        return {**_TARGETS[kind].checked(others), "path": path, "target_index_type": kind}

    @classmethod
    def parameters_of(cls, details: bytes, files: IndexFiles) -> dict[str, object]:
        target = JsonTarget.of_details(details)
        kind = next((name for name, kind in _TARGETS.items() if kind.index_type is target.index_type), None)
        if kind is None:
            raise CorruptFileError("a JSON index over a kind of index that this release does not build")
        return {**_TARGETS[kind].parameters_of(target.details, files), "path": target.path, "target_index_type": kind}

    @classmethod
    def statistics(cls, files: IndexFiles, dtype: pa.DataType) -> dict[str, object]:
        return {}

    def details(self) -> bytes:
        message = index_details_pb2.JsonIndexDetails(path=str(self.parameters["path"]))
        message.target_details.type_url = self.target_type.index_type.type_url
        message.target_details.value = self._target(pa.string()).details()
        data: bytes = message.SerializeToString(deterministic=True)
        return data

    def train(self, rows: IndexedRows, output: SegmentOutput) -> None:
        found = [None if item is None else scalar_at(item, self._steps) for item in rows.values.to_pylist()]
        values = [None if item is None else item[1] for item in found]
        kind = _kind_of(str(self.parameters["path"]), values)
        self._target(kind.dtype).train(
            IndexedRows(json_values(rows.values, self._steps, kind), rows.ids, rows.addresses), output
        )

    def merge(self, old: Sequence[OldSegment], rows: IndexedRows, output: SegmentOutput) -> None:
        if old:
            raise CorruptFileError("segments of a JSON index are not merged")
        self.train(rows, output)

    def remap(self, old: OldSegment, batches: Iterator[IndexedRows], output: SegmentOutput) -> None:
        target = self.target_type.index_type
        assert issubclass(target, ScalarIndex)
        dtype = value_type(old.files, target)
        kind = next((kind for kind in JsonKind if kind.dtype == dtype), None)
        if kind is None:
            raise CorruptFileError(f"a JSON index over values of type {dtype}")
        moved = (
            IndexedRows(json_values(rows.values, self._steps, kind), rows.ids, rows.addresses, rows.ends_fragment)
            for rows in batches
        )
        self._target(kind.dtype).merge_batches([old], moved, output)

    @property
    def _steps(self) -> tuple[Step, ...]:
        path = str(self.parameters["path"])
        return json_steps(path if path.startswith("$") else f"$.{path}")

    def _target(self, dtype: pa.DataType) -> IndexBuilder:
        own = {name: value for name, value in self.parameters.items() if name not in JsonBuilder.defaults}
        return self.target_type(dtype, own)


class _BTreeBuilder(JsonBuilder):
    pass


class _BitmapBuilder(JsonBuilder):
    index_type = _JsonBitmap
    target_type = BitmapBuilder


class _ZoneMapBuilder(JsonBuilder):
    index_type = _JsonZoneMap
    target_type = ZoneMapBuilder
    can_remap = False


_BUILDERS: dict[str, type[JsonBuilder]] = {"btree": _BTreeBuilder, "bitmap": _BitmapBuilder, "zonemap": _ZoneMapBuilder}


def _kind_of(path: str, values: Sequence[object]) -> JsonKind:
    """The type of all values; numbers are one type.

    Raises:
        InvalidInputError: they are of several types.
    """
    types = {type(value) for value in values if value is not None}
    if types == {int} and all(abs(value) < 1 << 63 for value in values if isinstance(value, int)):
        return JsonKind.INT
    if types and types <= {int, float}:
        return JsonKind.FLOAT
    if len(types) > 1:
        names = ", ".join(sorted(kind.__name__ for kind in types))
        raise InvalidInputError(
            f"the values at {path!r} are of several types ({names}), and an index has one; make them alike"
        )
    return JsonKind.BOOL if types == {bool} else JsonKind.STRING
