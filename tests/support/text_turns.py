"""Text indexes that both libraries extend by turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lance
import pyarrow as pa

import lance_spark


def extend_by_turns(uri: str, rows: Callable[[int, int, int], pa.Table], check: Callable[..., Any]) -> None:
    """Appends rows and optimizes the indexes, by this library and the reference library in turn; then deletes rows and
    compacts.

    Args:
        rows: makes rows from how many they are, a seed, and the first id.
        check: is called with the table, a seed, and `exact` False after each step.
    """
    for turn in range(4):
        dataset = lance_spark.write(rows(60, 10 + turn, 1000 + 60 * turn), uri, mode="append")
        if turn % 2:
            dataset.optimize_indices(num_indices_to_merge=turn)
        else:
            lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=turn)
        check(uri, turn, exact=False)
    lance_spark.open(uri).delete("id % 7 = 1")
    lance_spark.open(uri).compact()
    check(uri, 5, exact=False)
