"""A version of a table as an iterable data set of PyTorch, which must be installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
import torch
from torch.utils.data import IterableDataset, get_worker_info

from lance_spark.errors import InvalidInputError
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.table.dataset import Dataset
from lance_spark.table.reading.shards import Position, Shard, ShardPlan, ShardRows

Transform = Callable[[pa.RecordBatch], Any]


class LanceRows(IterableDataset[Any]):  # type: ignore[misc]
    """See `lance_spark.torch.dataset`.

    It has the protocol of torchdata's ``StatefulDataLoader``: `state_dict` says where an iteration is, and after
    `load_state_dict` the next one goes on there.
    """

    def __init__(
        self,
        table: Dataset | PartitionedDataset,
        plan: ShardPlan,
        rank: int | None,
        world_size: int | None,
        transform: Transform | None,
    ) -> None:
        super().__init__()
        self.table = table
        self._plan = plan
        self._ranks = _ranks(rank, world_size)
        self._transform = to_tensors if transform is None else transform
        # Shared memory: workers that live on see the next epoch too.
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()
        self._position = Position()
        self._resumes: dict[str, Any] | None = None
        ShardRows(table, plan)  # Wrong columns and filters are found here and not in a worker.

    def set_epoch(self, epoch: int) -> None:
        """The number of the epoch of the next iteration; with `shuffle` each has another order."""
        if epoch < 0:
            raise InvalidInputError(f"epoch is {epoch}; it must not be negative")
        self._epoch[0] = epoch

    def state_dict(self) -> dict[str, Any]:
        """Position of this process in the iteration: after the last batch that it returned."""
        shard = self._shard()
        return {
            "version": self.table.version,
            "epoch": int(self._epoch[0]),
            "shard": shard.index,
            "shards": shard.count,
            "window": self._position.window,
            "row": self._position.row,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next iteration goes on where `state_dict` was called.

        Raises:
            InvalidInputError: it is of another version of the table.
        """
        if state["version"] != self.table.version:
            raise InvalidInputError(
                f"the state is of version {state['version']} of {self.table.uri}, and version {self.table.version} is "
                "open; give the number as 'version'"
            )
        self._resumes = dict(state)

    def __iter__(self) -> Iterator[Any]:
        shard = self._shard()
        state, self._resumes = self._resumes, None
        self._position = Position()
        if state is not None:
            if (state["shard"], state["shards"]) != (shard.index, shard.count):
                raise InvalidInputError(
                    f"the state is of shard {state['shard']} of {state['shards']}, and this is {shard.index} of "
                    f"{shard.count}; use as many ranks and workers as before"
                )
            self._epoch[0] = state["epoch"]
            self._position = Position(state["window"], state["row"])
        rows = ShardRows(self.table, self._plan, shard, int(self._epoch[0]))
        for batch, after in rows.batches(self._position):
            self._position = after
            yield self._transform(batch)

    def _shard(self) -> Shard:
        worker = get_worker_info()
        rank, world_size = self._ranks
        if worker is None:
            return Shard(rank, world_size)
        return Shard(rank * worker.num_workers + worker.id, world_size * worker.num_workers)


def _ranks(rank: int | None, world_size: int | None) -> tuple[int, int]:
    if (rank is None) != (world_size is None):
        raise InvalidInputError("rank and world_size belong together; give both or none")
    if rank is not None and world_size is not None:
        shard = Shard(rank, world_size)
        return shard.index, shard.count
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def to_tensors(batch: pa.RecordBatch) -> dict[str, Any]:
    """Tensors of numbers, booleans and vectors by column, lists of everything else.

    Raises:
        InvalidInputError: nulls in a column of whole numbers, booleans or vectors.
    """
    return {name: _values(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)}


def _values(name: str, column: pa.Array) -> Any:
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    dtype = column.type
    if pt.is_fixed_size_list(dtype) and _is_number(dtype.value_type):
        items = column.flatten() if column.null_count == 0 else column.values
        if column.null_count or items.null_count:
            raise _nulls(name, "vectors")
        return _tensor(items).reshape(len(column), dtype.list_size)
    if not _is_number(dtype) and not pt.is_boolean(dtype):
        try:
            return column.to_pylist()
        except ValueError as error:
            # Python's times end at microseconds; pandas has others, and pyarrow says so.
            raise InvalidInputError(f"column {name} ({dtype}): {error} Or give a transform") from error
    if column.null_count and not pt.is_floating(dtype):
        raise _nulls(name, str(dtype))
    return _tensor(column)


def _is_number(dtype: pa.DataType) -> bool:
    return bool(pt.is_integer(dtype) or pt.is_floating(dtype))


def _tensor(column: pa.Array) -> torch.Tensor:
    values = column.to_numpy(zero_copy_only=False)
    # Arrow's memory must not be written to, and PyTorch has no tensors that only can be read.
    return torch.from_numpy(np.array(values))


def _nulls(name: str, kind: str) -> InvalidInputError:
    return InvalidInputError(
        f"column {name} ({kind}) has a null, for which tensors have no value; leave such rows out by a filter, or give "
        "a transform"
    )
