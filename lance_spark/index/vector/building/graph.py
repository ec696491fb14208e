"""HNSW graphs over the vectors of a partition, as `index.idx` has them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.index.vector.aligned import line_aligned
from lance_spark.index.vector.building.kmeans import assign
from lance_spark.index.vector.building.model import GraphParameters
from lance_spark.index.vector.metrics import Vectors
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.hnsw_build import CODES_SQUARED_L2, MAX_CODES, PRODUCT, SQUARED_L2, build_graph
from lance_spark.kernels.vector.scalar_codes import scalar_codes_f32

Float32Array = npt.NDArray[np.float32]
Int64Array = npt.NDArray[np.int64]

_SEED = 42
"""Levels are drawn with a constant seed, so graphs of equal size have equal levels."""

_NUM_CENTRES = 256
"""Rows are near to each other if the same of this many random ones is the nearest to them."""

_BLOCK_ROWS = 1 << 15

_LARGEST_CODE = 255

_MIN_CODED_BYTES = 4 << 20
"""Fewer bytes of vectors stay in the caches of the processor, where codes gain nothing."""

_FIELDS = (
    pa.field("__vector_id", pa.uint32()),
    pa.field("__neighbors", pa.list_(pa.uint32())),
    pa.field("_distance", pa.list_(pa.float32())),
)
GRAPH_SCHEMA = pa.schema(_FIELDS)


@dataclass(frozen=True)
class Graph:
    """A graph.

    Attributes:
        rows: of `GRAPH_SCHEMA`: the nodes of level 0, then those of level 1, and so on.
        description: JSON; empty for a graph without nodes.
    """

    rows: pa.Table
    description: str


def graph_of(vectors: Vectors, parameters: GraphParameters, *, by_product: bool, scale: float = 1.0) -> Graph:
    """The graph of some vectors, whose nodes are numbered as the rows.

    Args:
        vectors: [n, w] of float32, or of uint8 to be compared by squared l2.
        by_product: distances are 1 - a·b, else squared l2.
        scale: the distances in the graph are these multiplied by it.
    """
    if not len(vectors):
        return Graph(GRAPH_SCHEMA.empty_table(), "")
    levels = _levels(len(vectors), parameters)
    upper = np.zeros(len(levels), np.int32)
    np.cumsum(levels[:-1], out=upper[1:])
    lowest, above = _Links.none(len(levels), 2 * parameters.m + 1), _Links.none(int(levels.sum()), parameters.m)
    order = _insertion_order(vectors)
    values = np.ascontiguousarray(vectors[order])
    kind = CODES_SQUARED_L2 if values.dtype == np.uint8 else PRODUCT if by_product else SQUARED_L2
    codes, code_scale = _codes(values, kind)
    room = np.empty((2, max(parameters.ef_construction, 2 * parameters.m + 1) + 1), np.int32)
    entry = build_graph(
        address_of(values),
        len(values),
        values.shape[1],
        kind,
        address_of(codes) if codes.size else 0,
        code_scale,
        parameters.m,
        parameters.ef_construction,
        address_of(levels),
        address_of(upper),
        *lowest.addresses(),
        *above.addresses(),
        address_of(room),
    )
    for links in (lowest, above):
        np.multiply(links.distances, np.float32(scale), out=links.distances)
    return _graph(order, _Inserted(levels, upper, lowest, above, int(entry)), parameters)


def _insertion_order(vectors: Vectors) -> Int64Array:
    """int64[n]: the order in which vectors are inserted, in which they lie in memory meanwhile.

    A random part comes first, then again and again as many as there are already, those near to each other one after
    the other: so the nodes that one walk visits are in the caches of the processor for the next one, and the graph
    has nodes everywhere from the start.
    """
    num_rows = len(vectors)
    random = np.random.default_rng(_SEED).permutation(num_rows)
    centres = vectors[random[:_NUM_CENTRES]].astype(np.float32)
    labels = np.empty(num_rows, np.int32)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, num_rows, _BLOCK_ROWS):
            block = vectors[start : start + _BLOCK_ROWS].astype(np.float32, copy=False)
            labels[start : start + _BLOCK_ROWS] = assign(block, centres, squares=0)[0]
    # The first rows are one round; each of the next rounds ends at twice the place where it begins.
    _, rounds = np.frexp(np.arange(num_rows) // _NUM_CENTRES)
    return random[np.lexsort((labels[random], rounds))]


def _codes(values: Vectors, kind: int) -> tuple[Vectors, float]:
    """(uint8[n, w] of float32 vectors that are compared by squared l2, by which nodes are searched for; what squared l2
    distances of codes are multiplied by); no codes where they gain nothing."""
    if kind == SQUARED_L2 and values.shape[1] <= MAX_CODES and values.nbytes >= _MIN_CODED_BYTES:
        low, high = float(values.min()), float(values.max())
        if low < high and np.isfinite(high - low):
            codes = line_aligned(values.shape, np.uint8)
            scalar_codes_f32(address_of(values), values.size, low, high, address_of(codes))
            return codes, ((high - low) / _LARGEST_CODE) ** 2
    return np.empty((0, 0), np.uint8), 0.0


@dataclass(frozen=True)
class _Links:
    """Links of nodes: int32[n, c], their distances, and the number of each row's."""

    targets: npt.NDArray[np.int32]
    distances: Float32Array
    counts: npt.NDArray[np.int32]

    @classmethod
    def none(cls, num_rows: int, capacity: int) -> _Links:
        shape = (num_rows, capacity)
        return cls(np.zeros(shape, np.int32), np.zeros(shape, np.float32), np.zeros(num_rows, np.int32))

    def addresses(self) -> Sequence[int]:
        return [address_of(self.targets), address_of(self.distances), address_of(self.counts)]

    def rows(self, nodes: Int64Array, places: npt.NDArray[Any], numbers: npt.NDArray[np.uint32]) -> pa.Table:
        """The links in the rows at `places`, which are those of `nodes`.

        Args:
            numbers: uint32[n]: the node at each place that links lead to.
        """
        counts = self.counts[places]
        used = np.arange(self.targets.shape[1]) < counts[:, None]
        offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
        targets = pa.array(numbers[self.targets[places][used]])
        distances = pa.array(self.distances[places][used])
        columns = [
            pa.array(nodes.astype(np.uint32)),
            pa.ListArray.from_arrays(offsets, targets),
            pa.ListArray.from_arrays(offsets, distances),
        ]
        return pa.Table.from_arrays(columns, schema=GRAPH_SCHEMA)


def _levels(num_nodes: int, parameters: GraphParameters) -> npt.NDArray[np.int32]:
    uniform = 1 - np.random.default_rng(_SEED).random(num_nodes)
    drawn = np.floor(-np.log(uniform) / math.log(parameters.m))
    return np.minimum(drawn, parameters.max_level - 1).astype(np.int32)


@dataclass(frozen=True)
class _Inserted:
    """Nodes by the place at which they were inserted.

    Attributes:
        levels: int32[n]: the highest level of each.
        upper: int32[n]: the first row of each in `above`.
        lowest: links of level 0.
        above: those of higher levels.
        entry: where a search begins.
    """

    levels: npt.NDArray[np.int32]
    upper: npt.NDArray[np.int32]
    lowest: _Links
    above: _Links
    entry: int


def _graph(order: Int64Array, inserted: _Inserted, parameters: GraphParameters) -> Graph:
    """The graph of nodes that were inserted in an order, int64[n]."""
    places, numbers = order.argsort(), order.astype(np.uint32)
    tables = [inserted.lowest.rows(np.arange(len(order)), places, numbers)]
    offsets = [0, len(order)]
    for level in range(1, parameters.max_level):
        nodes = np.flatnonzero(inserted.levels[places] >= level)
        if len(nodes):
            tables.append(inserted.above.rows(nodes, inserted.upper[places[nodes]] + level - 1, numbers))
        offsets.append(offsets[-1] + len(nodes))
    description = {
        "entry_point": int(order[inserted.entry]),
        "params": {
            "max_level": parameters.max_level,
            "m": parameters.m,
            "ef_construction": parameters.ef_construction,
            "prefetch_distance": parameters.prefetch_distance,
        },
        "level_offsets": offsets,
    }
    return Graph(pa.concat_tables(tables), json.dumps(description, separators=(",", ":")))
