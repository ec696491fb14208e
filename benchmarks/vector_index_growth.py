"""What a search in an IVF_PQ segment reads and takes, for segments of more and more rows.

    PYTHONPATH=. OPENBLAS_NUM_THREADS=1 taskset -c 0 python benchmarks/vector_index_growth.py [rows ...]

The segments are made without a table, partition by partition: 128 dimensions, 16 sub-vectors of 8 bits, random
centroids, codewords and codes, 24,400 rows a partition, of which 24 are searched for the 40 nearest rows. Requests and
bytes are those of an object store. A cold search opens the files, a new one has another query with the files open, a
warm one a query that was asked before. The candidates of each first search are compared with numpy's.
"""

from __future__ import annotations

import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.index_growth import KeptStore
from lance_spark.file.writer import FileWriter
from lance_spark.file_version import FileVersion
from lance_spark.index.builders.output import SegmentOutput
from lance_spark.index.files import IndexFiles
from lance_spark.index.vector.building.codecs import codec_of
from lance_spark.index.vector.building.model import VectorModel
from lance_spark.index.vector.building.segment_files import StoredRows, storage_parts, write_segment_files
from lance_spark.index.vector.ivf import STORAGE_FILE
from lance_spark.index.vector.metrics import Metric
from lance_spark.index.vector.opened import open_segment
from lance_spark.index.vector.probing import Probing
from lance_spark.index.vector.segment import Effort, nearest_of_segment
from lance_spark.schema.arrow import internal_schema
from lance_spark.storage import open_store

_DIMENSION = 128
_SUB_VECTORS = 16
_PARTITION_ROWS = 24_400
_PROBES = 24
_EFFORT = Effort(k=10, count=40, probing=Probing(_PROBES, _PROBES))

Codes = npt.NDArray[np.uint8]


class AllRows:
    """Every row lives, at the address that the index has."""

    may_exclude = False

    def __call__(self, row_ids: npt.NDArray[np.uint64], /) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
        return row_ids, np.ones(len(row_ids), np.bool_)


def model_of(num_partitions: int) -> VectorModel:
    random = np.random.default_rng(0)
    centroids = random.standard_normal((num_partitions, _DIMENSION)).astype(np.float32)
    codebook = random.standard_normal((_SUB_VECTORS, 256, _DIMENSION // _SUB_VECTORS)).astype(np.float32)
    return VectorModel("IVF_PQ", Metric.L2, centroids, codebook=codebook)


def codes_of(number: int) -> Codes:
    """The codes of a partition: uint8[rows, sub-vectors]."""
    return np.random.default_rng(number + 1).integers(0, 256, (_PARTITION_ROWS, _SUB_VECTORS), np.uint8)


def ids_of(number: int, model: VectorModel) -> npt.NDArray[np.uint64]:
    """The row ids of a partition, in ascending order, from everywhere in the table."""
    return np.arange(_PARTITION_ROWS, dtype=np.uint64) * np.uint64(len(model.centroids)) + np.uint64(number)


def written(folder: str, model: VectorModel) -> dict[str, int]:
    """Writes a segment; the sizes of its files."""
    store, codec = open_store(folder), codec_of(model)
    output = SegmentOutput(store, "segment", FileVersion.V2_1)
    no_codes = {"__pq_code": np.empty((0, _SUB_VECTORS), np.uint8)}
    write_segment_files(model, StoredRows(np.empty(0, np.uint64), np.empty(0, np.int32), no_codes), output)
    metadata, buffers = storage_parts(model, [_PARTITION_ROWS] * len(model.centroids))
    batches = _batches(model)
    first = next(batches)
    schema = internal_schema(first.schema)
    with FileWriter(store, f"segment/{STORAGE_FILE}", schema, version=FileVersion.V2_1) as writer:
        for key, data in buffers.items():
            writer.add_schema_metadata(key, str(writer.add_global_buffer(data)).encode())
        for data in codec.buffers():
            writer.add_global_buffer(data)
        for key, value in metadata.items():
            writer.add_schema_metadata(key, value.encode())
        writer.write(first)
        for batch in batches:
            writer.write(batch)
        output.sizes[STORAGE_FILE] = writer.close().size_bytes
    return output.sizes


def _batches(model: VectorModel) -> Iterator[pa.RecordBatch]:
    codec = codec_of(model)
    fields = [pa.field("_rowid", pa.uint64())]
    fields += [pa.field(name, dtype, nullable=codec.is_nullable) for name, dtype in codec.types().items()]
    for number in range(len(model.centroids)):
        packed = codec.packed({"__pq_code": codes_of(number)})["__pq_code"]
        codes = pa.FixedSizeListArray.from_arrays(pa.array(packed.reshape(-1)), type=fields[1].type)
        yield pa.record_batch([pa.array(ids_of(number, model)), codes], schema=pa.schema(fields))


def nearest_of_numpy(model: VectorModel, query: npt.NDArray[np.float32]) -> set[int]:
    """The ids of the candidates."""
    assert model.codebook is not None
    to_centroids = ((model.centroids - query) ** 2).sum(axis=1)
    distances, ids = [], []
    for number in np.argsort(to_centroids)[:_PROBES].tolist():
        rest = (query - model.centroids[number]).reshape(_SUB_VECTORS, 1, -1)
        table = ((rest - model.codebook) ** 2).sum(axis=2, dtype=np.float64)
        distances.append(table[np.arange(_SUB_VECTORS), codes_of(number)].sum(axis=1))
        ids.append(ids_of(number, model))
    return set(np.concatenate(ids)[np.argsort(np.concatenate(distances))[: _EFFORT.count]].tolist())


def measure(folder: str, num_rows: int) -> None:
    model = model_of(max(_PROBES, round(num_rows / _PARTITION_ROWS)))
    start = time.process_time()
    sizes = written(folder, model)
    total = len(model.centroids) * _PARTITION_ROWS
    took = time.process_time() - start
    size = sum(sizes.values()) / 1e9
    print(f"{total:,} rows, {len(model.centroids)} partitions, {size:.2f} GB, written in {took:.0f} s")
    random = np.random.default_rng(7)
    chosen = random.integers(0, len(model.centroids), 20)
    queries = (model.centroids[chosen] + random.standard_normal((20, _DIMENSION)) / 4).astype(np.float32)

    def search(files: IndexFiles, query: npt.NDArray[np.float32]) -> tuple[float, set[int]]:
        begun = time.process_time()
        hits = nearest_of_segment(open_segment(files, _DIMENSION), query, _EFFORT, AllRows())
        return time.process_time() - begun, set(hits.row_ids.tolist())

    search(IndexFiles(open_store(folder), "segment", sizes), queries[0])  # Compiles kernels.
    store = KeptStore(open_store(folder))
    files = IndexFiles(store, "segment", sizes)
    rounds = (("cold", queries[:1]), ("new", queries[1:]), ("warm", np.repeat(queries[-1:], 9, axis=0)))
    for name, asked in rounds:
        store.reset()
        found = [search(files, query) for query in asked]
        counts = store.reset()
        assert found[0][1] == nearest_of_numpy(model, asked[0])
        requests, num_bytes = counts.read_requests / len(asked), counts.bytes_read / len(asked)
        least = min(seconds for seconds, _ in found) * 1000
        print(f"    {name}: {requests:.1f} requests, {num_bytes / 1e6:.2f} MB, {least:.2f} ms", flush=True)
    print(f"    memory of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB at most")


def main() -> None:
    for num_rows in [int(text) for text in sys.argv[1:]] or [1_000_000, 10_000_000, 100_000_000]:
        folder = tempfile.mkdtemp(prefix="lance-vector-growth-")
        try:
            measure(folder, num_rows)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
