"""Pairs of operations and what the reference library makes of them."""

from __future__ import annotations

from collections.abc import Callable

import lance
import pyarrow as pa

from lance_spark.table.operations.base import OperationKind

K = OperationKind


def in_between(uri: str) -> dict[OperationKind, Callable[[], object]]:
    dataset = lance.dataset(uri)
    row = pa.table({"a": pa.array([9], pa.int64())})
    return {
        K.APPEND: lambda: lance.write_dataset(row, uri, mode="append"),
        K.DELETE: lambda: dataset.delete("a = 1"),
        K.UPDATE: lambda: dataset.update({"a": "a + 10"}, where="a = 1"),
        K.OVERWRITE: lambda: lance.write_dataset(row, uri, mode="overwrite"),
        K.CREATE_INDEX: lambda: dataset.create_scalar_index("a", "BTREE"),
        K.RESTORE: lambda: lance.dataset(uri, version=1).restore(),
        K.UPDATE_CONFIG: lambda: dataset.update_config({"k": "v"}),
        K.PROJECT: lambda: dataset.drop_columns(["b"]),
        K.MERGE: lambda: dataset.add_columns(pa.field("c", pa.string())),
    }


MEASURED = [
    K.APPEND, K.DELETE, K.UPDATE, K.OVERWRITE, K.CREATE_INDEX, K.RESTORE, K.UPDATE_CONFIG, K.PROJECT, K.MERGE
]  # fmt: skip
