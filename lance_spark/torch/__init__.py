"""Tables as input of PyTorch's data loaders, without Spark and without a JVM.

PyTorch is needed only when a data set is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.expr.nodes import Expr
from lance_spark.partitioned.access import open_table
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.storage.paths import UriOrPath
from lance_spark.table.dataset import Dataset
from lance_spark.table.reading.shards import DEFAULT_WINDOW_ROWS, ShardPlan

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_spark.torch.iterable import LanceRows

__all__ = ["dataset"]


def dataset(
    table: UriOrPath | Dataset | PartitionedDataset,
    columns: Sequence[str] | None = None,
    filter: str | Expr | None = None,
    *,
    batch_size: int = 1024,
    shuffle: bool = False,
    seed: int = 0,
    window_rows: int = DEFAULT_WINDOW_ROWS,
    rank: int | None = None,
    world_size: int | None = None,
    equal: bool = False,
    drop_last: bool = False,
    blob_handling: str | None = None,
    transform: Callable[[pa.RecordBatch], Any] | None = None,
    version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> LanceRows:
    """A `torch.utils.data.IterableDataset` of batches, for ``DataLoader(data, batch_size=None)``.

    The version is fixed when the data set is made, also for the loader's workers. Each row belongs to exactly one rank
    and one worker. A batch is a dict by column: numbers, booleans and vectors as tensors, NaN for nulls of floating
    point; texts, bytes and everything else as lists.

    Args:
        table: where it is, or a version that is open.
        columns, filter: as in `Dataset.scan`.
        batch_size: rows of a batch.
        shuffle: a random order: places of the table first, then the rows of a window. `LanceRows.set_epoch` gives
            another order for each epoch.
        seed: the same number gives the same order, on all ranks.
        window_rows: rows that are read, and shuffled, together; they have to fit into memory.
        rank, world_size: of this process; by default those of `torch.distributed`, if that is initialized, else 0 of 1.
        equal: all ranks and workers get the same number of rows; fewer than ranks times workers are left out. Not with
            a filter.
        drop_last: leaves out the rows at the end of a rank or worker that do not fill a batch.
        blob_handling: as in `Dataset.scan`, but bytes by default.
        transform: makes something else than the dict of a `pyarrow.RecordBatch`, in the worker.
        version: for `table` by name; None for the newest version.
        storage_options: of the store, for `table` by name.

    Raises:
        UnsupportedFeatureError: PyTorch is not installed.
        NotFoundError: there is no such table, version or column.
        InvalidInputError: an argument is invalid.
    """
    try:
        from lance_spark.torch.iterable import LanceRows
    except ImportError as error:
        raise UnsupportedFeatureError(
            f"lance_spark.torch needs PyTorch, which cannot be imported ({error}): pip install torch", feature="PyTorch"
        ) from error
    if isinstance(table, (Dataset, PartitionedDataset)):
        if version is not None or storage_options is not None:
            raise InvalidInputError("version and storage_options are for a table by name, and this one is open")
    else:
        table = open_table(table, version=version, storage_options=storage_options)
    plan = ShardPlan(
        columns=columns,
        filter=filter,
        batch_size=batch_size,
        shuffle=shuffle,
        seed=seed,
        window_rows=window_rows,
        equal=equal,
        drop_last=drop_last,
        blob_handling=blob_handling,
    )
    return LanceRows(table, plan, rank, world_size, transform)
