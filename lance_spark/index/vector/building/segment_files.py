"""Writes the two files of a segment of a vector index, and reads the rows of one for another segment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark._proto import index_details_pb2
from lance_spark.index.builders.output import SegmentOutput
from lance_spark.index.files import IndexFiles, require_no_nulls
from lance_spark.index.vector.building.codec import Codec, Columns
from lance_spark.index.vector.building.codecs import codec_of
from lance_spark.index.vector.building.graph import GRAPH_SCHEMA, Graph, graph_of
from lance_spark.index.vector.building.model import GraphParameters, VectorModel, set_lengths
from lance_spark.index.vector.building.training import assigned
from lance_spark.index.vector.building.vectors import VectorRows
from lance_spark.index.vector.ivf import MODEL_FILE, STORAGE_FILE, Partitions, storage_metadata
from lance_spark.index.vector.metrics import Metric

Int32Array = npt.NDArray[np.int32]
UInt64Array = npt.NDArray[np.uint64]

_ROW_ID = "_rowid"


@dataclass(frozen=True)
class StoredRows:
    """Rows of a segment.

    Attributes:
        ids: uint64[n].
        labels: int32[n]: their partitions.
        columns: vectors or codes, a row for each.
    """

    ids: UInt64Array
    labels: Int32Array
    columns: Columns

    @classmethod
    def joined(cls, parts: Sequence[StoredRows]) -> StoredRows:
        """The rows of all parts, of which there is at least one."""
        names = parts[0].columns
        columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in names}
        ids = np.concatenate([part.ids for part in parts])
        return cls(ids, np.concatenate([part.labels for part in parts]), columns)

    def taken(self, rows: npt.NDArray[Any]) -> StoredRows:
        """The rows at places, or for which a mask is true."""
        columns = {name: values[rows] for name, values in self.columns.items()}
        return StoredRows(self.ids[rows], self.labels[rows], columns)


def coded_rows(model: VectorModel, vectors: VectorRows) -> StoredRows:
    """Vectors in their partitions, coded by a model."""
    labels = assigned(model, vectors.vectors)
    return StoredRows(vectors.ids, labels, codec_of(model).encoded(vectors.vectors, labels))


def write_segment_files(model: VectorModel, rows: StoredRows, output: SegmentOutput) -> None:
    """Writes the files of a segment over `rows`, in any order.

    Raises:
        StorageError: the store failed.
    """
    rows = rows.taken(np.lexsort((rows.ids, rows.labels)))
    lengths = np.bincount(rows.labels, minlength=len(model.centroids)).astype(np.int64)
    codec = codec_of(model)
    _write_storage(model, codec, rows, lengths, output)
    if model.graph is None:
        _write_model(model, lengths, output)
    else:
        _write_graphs(model, _graphs(model, model.graph, codec, rows, lengths), output)


def read_rows_of_segment(files: IndexFiles, model: VectorModel) -> StoredRows:
    """All rows of a segment that has this model.

    Raises:
        LanceError: a file is missing or broken.
    """
    file, codec = files.open(STORAGE_FILE), codec_of(model)
    partitions = Partitions.read(file, len(model.centroids))
    description = storage_metadata(file)
    types = codec.types()
    ids, *found = file.columns({_ROW_ID: pa.uint64(), **types})
    require_no_nulls(file, [ids, *found])
    columns = {name: _numpy(values) for name, values in zip(types, found, strict=True)}
    spans = list(zip(partitions.offsets.tolist(), partitions.lengths.tolist(), strict=True))
    if sum(length for _, length in spans) != len(ids):
        raise file.damaged(f"partitions of {sum(length for _, length in spans)} rows in a file of {len(ids)}")
    parts = [
        StoredRows(
            ids.to_numpy()[start : start + length],
            np.full(length, label, np.int32),
            codec.unpacked({name: values[start : start + length] for name, values in columns.items()}, description),
        )
        for label, (start, length) in enumerate(spans)
    ]
    return StoredRows.joined(parts)


def partition_sizes(files: IndexFiles, num_partitions: int) -> list[int]:
    """The rows of each partition of a segment.

    Raises:
        LanceError: the file is missing or broken.
    """
    sizes: list[int] = Partitions.read(files.open(STORAGE_FILE), num_partitions).lengths.tolist()
    return sizes


def _write_storage(
    model: VectorModel, codec: Codec, rows: StoredRows, lengths: npt.NDArray[np.int64], output: SegmentOutput
) -> None:
    types, packed = codec.types(), _packed(codec, rows.columns, lengths)
    columns = [pa.array(rows.ids, pa.uint64())]
    fields = [pa.field(_ROW_ID, pa.uint64())]
    for name, dtype in types.items():
        columns.append(_arrow(packed[name], dtype))
        fields.append(pa.field(name, dtype, nullable=codec.is_nullable))
    table = pa.Table.from_arrays(columns, schema=pa.schema(fields))
    output.write(STORAGE_FILE, table, *storage_parts(model, lengths.tolist()), codec.buffers())


def _packed(codec: Codec, columns: Columns, lengths: npt.NDArray[np.int64]) -> Columns:
    """The columns of all partitions as files have them; no copy of those that are stored as they are."""
    if type(codec).packed is Codec.packed or not lengths.any():
        return columns
    bounds = np.cumsum([0, *lengths.tolist()]).tolist()
    spans = [slice(start, stop) for start, stop in pairwise(bounds) if start < stop]
    parts = [codec.packed({name: values[span] for name, values in columns.items()}) for span in spans]
    return {name: np.concatenate([part[name] for part in parts]) for name in columns}


def storage_parts(model: VectorModel, lengths: list[int]) -> tuple[dict[str, str], dict[str, bytes]]:
    """(entries of the metadata of the schema, global buffers by name) of the file of the rows.

    Args:
        lengths: the rows of each partition.
    """
    message = index_details_pb2.IVF()
    set_lengths(message, lengths)
    description = json.dumps(codec_of(model).description(), separators=(",", ":"))
    metadata = {"distance_type": model.metric.value, "storage_metadata": json.dumps([description])}
    return metadata, {"lance:ivf": _serialized(message)}


def _write_model(model: VectorModel, lengths: npt.NDArray[np.int64], output: SegmentOutput) -> None:
    marker = pa.schema([pa.field("__flat_marker", pa.uint64(), nullable=False)])
    metadata = {**_kind(model), "lance:flat": json.dumps([""] * len(lengths), separators=(",", ":"))}
    message = model.partition_message()
    output.write(MODEL_FILE, marker.empty_table(), metadata, {"lance:ivf": _serialized(message)})


def _graphs(
    model: VectorModel, parameters: GraphParameters, codec: Codec, rows: StoredRows, lengths: npt.NDArray[np.int64]
) -> list[Graph]:
    """The graph of each partition."""
    stops = np.cumsum(lengths)
    found = []
    for start, stop in zip((stops - lengths).tolist(), stops.tolist(), strict=True):
        own, scale = codec.compared({name: values[start:stop] for name, values in rows.columns.items()})
        found.append(graph_of(own, parameters, by_product=model.metric is Metric.DOT, scale=scale))
    return found


def _write_graphs(model: VectorModel, graphs: Sequence[Graph], output: SegmentOutput) -> None:
    texts = json.dumps([graph.description for graph in graphs], separators=(",", ":"))
    message = model.partition_message([len(graph.rows) for graph in graphs])
    table = pa.concat_tables([GRAPH_SCHEMA.empty_table(), *(graph.rows for graph in graphs)])
    output.write(MODEL_FILE, table, {**_kind(model), "lance:hnsw": texts}, {"lance:ivf": _serialized(message)})


def _kind(model: VectorModel) -> dict[str, str]:
    kind = {"type": model.kind, "distance_type": model.metric.value}
    return {"lance:index": json.dumps(kind, separators=(",", ":"))}


def _serialized(message: index_details_pb2.IVF) -> bytes:
    return message.SerializeToString(deterministic=True)


def _numpy(values: pa.Array) -> npt.NDArray[Any]:
    if not pa.types.is_fixed_size_list(values.type):
        flat: npt.NDArray[Any] = values.to_numpy()
        return flat
    width = values.type.list_size
    items = values.values.slice(values.offset * width, len(values) * width)
    rows: npt.NDArray[Any] = items.to_numpy(zero_copy_only=False).reshape(len(values), width)
    return rows


def _arrow(values: npt.NDArray[Any], dtype: pa.DataType) -> pa.Array:
    if not pa.types.is_fixed_size_list(dtype):
        return pa.array(values, dtype)
    items = pa.array(np.ascontiguousarray(values).reshape(-1), dtype.value_type)
    return pa.FixedSizeListArray.from_arrays(items, type=dtype)
