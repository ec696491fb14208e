"""Indexes as earlier releases wrote them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

import lance_spark


def make_old(uri: str) -> None:
    """Files that were just written are not cached: their times do not tell them from those written next."""
    for path in Path(uri).rglob("*"):
        os.utime(path, (time.time() - 7200,) * 2)


def results(uri: str, queries: Any, metric: str, **options: Any) -> list[pa.Table]:
    dataset = lance_spark.open(uri)
    return [
        dataset.nearest("v", query, k, metric=metric, nprobes=nprobes, columns=["id"], with_row_id=True, **options)
        for nprobes in (1, 4)
        for k in (1, 10, 60)
        for query in queries
    ]
