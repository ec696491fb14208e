"""HNSW: the rows of a partition as nodes of a graph, in levels; a search walks from node to node towards the query."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.index.files import IndexFile
from lance_spark.index.vector.ivf import Partitions
from lance_spark.index.vector.metrics import Float32Array
from lance_spark.index.vector.storage import GraphNodes
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.vector_graph import nearest_nodes
from lance_spark.layouts.base import RowRanges
from lance_spark.storage.cache import cached_part

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Graph:
    """The graph of a partition.

    Attributes:
        ids: uint32: the node of each row.
        levels: int64[l + 1]: the rows of each level.
        ends: int64[rows + 1]: the edges of each row.
        edges: uint32: the nodes that they lead to.
        entry: the node where a search begins.
    """

    ids: npt.NDArray[np.uint32]
    levels: Int64Array
    ends: Int64Array
    edges: npt.NDArray[np.uint32]
    entry: int

    @cached_property
    def _addresses(self) -> tuple[int, ...]:
        """Bytes of the ids, levels, ends and edges."""
        return tuple(address_of(array) for array in (self.ids, self.levels, self.ends, self.edges))

    def nearest(
        self, nodes: GraphNodes, effort: int, returned: npt.NDArray[np.bool_] | None
    ) -> tuple[Float32Array, Int64Array] | None:
        """(distances float32[n], nodes int64[n]), about the `effort` nearest; None if the graph is broken.

        Args:
            nodes: what the nodes are.
            effort: how many nodes are kept while walking.
            returned: bool[nodes]: those that can be results; None for all.
        """
        num_nodes = len(nodes.payload)
        room = min(effort, num_nodes)
        visited = np.zeros(num_nodes // 8 + 1, np.uint8)
        open_keys, open_nodes = np.empty(num_nodes, np.float32), np.empty(num_nodes, np.int64)
        keys, found = np.empty(room, np.float32), np.empty(room, np.int64)
        ids, levels, ends, edges = self._addresses
        count = nearest_nodes(
            nodes.kind,
            address_of(nodes.payload),
            nodes.width,
            address_of(nodes.query),
            nodes.scale,
            nodes.offset,
            num_nodes,
            ids,
            levels,
            len(self.levels) - 1,
            ends,
            edges,
            len(self.edges),
            self.entry,
            room,
            0 if returned is None else address_of(returned),
            address_of(visited),
            address_of(open_keys),
            address_of(open_nodes),
            address_of(keys),
            address_of(found),
        )
        return None if count < 0 else (keys[:count], found[:count])


@dataclass(frozen=True)
class Graphs:
    """The graphs of a segment, in its model file.

    Attributes:
        file: the file.
        partitions: the rows of the graph of each partition.
        described: the levels and the entry of each graph, as JSON.
    """

    file: IndexFile
    partitions: Partitions
    described: list[str]
    _owner: object = field(default_factory=object, repr=False, compare=False)

    @classmethod
    def of(cls, file: IndexFile, num_partitions: int) -> Graphs:
        """The graphs in `file`.

        Raises:
            CorruptFileError: they are not described.
        """
        try:
            described = json.loads(file.metadata["lance:hnsw"])
        except (KeyError, ValueError, RecursionError) as error:
            raise file.damaged("lance:hnsw is no JSON") from error
        if not isinstance(described, list) or len(described) != num_partitions:
            raise file.damaged(f"lance:hnsw does not describe {num_partitions} graphs")
        return cls(file, Partitions.read(file, num_partitions), [str(text) for text in described])

    def graph(self, number: int, num_nodes: int) -> Graph:
        """The graph of partition `number`, which has `num_nodes` rows.

        Raises:
            CorruptFileError: it contradicts itself.
        """

        def make() -> tuple[Graph, int]:
            graph = self._read(number, num_nodes)
            return graph, graph.ids.nbytes + graph.ends.nbytes + graph.edges.nbytes

        return cached_part(self._owner, number, make)

    def _read(self, number: int, num_nodes: int) -> Graph:
        start, length = int(self.partitions.offsets[number]), int(self.partitions.lengths[number])
        types = {"__vector_id": pa.uint32(), "__neighbors": pa.list_(pa.uint32())}
        ids, neighbours = self.file.columns(types, RowRanges.of(start, start + length))
        if ids.null_count or neighbours.null_count or neighbours.values.null_count:
            raise self.file.damaged("a graph has nulls where it must have nodes")
        levels, entry = self._levels(number, length)
        nodes = np.ascontiguousarray(ids.to_numpy())
        if levels[1] != num_nodes or not np.array_equal(nodes[:num_nodes], np.arange(num_nodes, dtype=np.uint32)):
            raise self.file.damaged(f"the lowest level of a graph does not have the {num_nodes} rows of its partition")
        ends = neighbours.offsets.to_numpy().astype(np.int64)
        edges = neighbours.values.to_numpy()[ends[0] : ends[-1]]
        return Graph(nodes, levels, ends - ends[0], np.ascontiguousarray(edges), entry)

    def _levels(self, number: int, num_rows: int) -> tuple[Int64Array, int]:
        """(the rows of each level that has any, the entry)."""
        try:
            described = json.loads(self.described[number])
            levels, entry = np.array(described["level_offsets"], np.int64), int(described["entry_point"])
        except (KeyError, ValueError, TypeError, RecursionError, OverflowError) as error:
            raise self.file.damaged(f"the graph of partition {number} is not described") from error
        is_list = levels.ndim == 1 and len(levels) >= 2
        if not is_list or levels[0] or levels[-1] != num_rows or bool((np.diff(levels) < 0).any()):
            raise self.file.damaged(f"the levels of a graph do not have its {num_rows} rows")
        filled = np.concatenate([levels[:1], levels[1:][np.diff(levels) > 0]])
        return np.ascontiguousarray(filled), entry
