"""Parts of a scan that are read at once: order, errors, early ends, and that requests overlap on a remote store."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from threading import Barrier, Condition

import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CorruptFileError
from lance_spark.storage import cache
from lance_spark.table.reading.parallel_reads import Part, read_parts
from tests.support.moto import S3Bucket
from tests.support.s3_proxy import Seen, Trouble, s3_proxy

FRAGMENTS = 40
ROWS = 50


def batch(value: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"v": [value]})


def values(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [value for found in batches for value in found.column("v").to_pylist()]


@pytest.mark.parametrize("at_once", [1, 4])
@pytest.mark.parametrize("num_bytes", [1, 30, 1000, inf])
def test_rows_are_in_order(at_once: int, num_bytes: float) -> None:
    parts = [Part(lambda n=n: iter([batch(2 * n), batch(2 * n + 1)]), num_bytes) for n in range(20)]
    assert values(read_parts(parts, at_once=at_once, window_bytes=100)) == list(range(40))


@pytest.mark.parametrize("at_once", [1, 4])
def test_error_comes_after_the_rows_before_it(at_once: int) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield batch(100)
        raise CorruptFileError("on purpose")

    parts = [Part(lambda n=n: iter([batch(n)]), 1) for n in range(3)]
    parts += [Part(broken, 1), Part(lambda: iter([batch(4)]), 1)]
    found: list[int] = []
    with pytest.raises(CorruptFileError, match="on purpose"):
        found.extend(item.column("v")[0].as_py() for item in read_parts(parts, at_once=at_once, window_bytes=100))
    assert found == [0, 1, 2, 100]


def test_first_part_is_read_alone() -> None:
    asked: list[int] = []

    def part(number: int) -> Part:
        return Part(lambda: iter([asked.append(number) or batch(number)]), 1)

    next(read_parts(map(part, range(20)), at_once=16, window_bytes=100))
    assert asked == [0]


def test_parts_overlap() -> None:
    together = Barrier(4)

    def read() -> Iterator[pa.RecordBatch]:
        together.wait(30)
        yield batch(1)

    parts = [Part(lambda: iter([batch(1)]), 1), *(Part(read, 1) for _ in range(4))]
    assert values(read_parts(parts, at_once=4, window_bytes=100)) == [1] * 5


def test_parts_larger_than_a_window_are_read_one_by_one() -> None:
    running: list[int] = []

    def read(number: int) -> Iterator[pa.RecordBatch]:
        running.append(number)
        yield batch(number)
        assert running == [number], "another part has been read meanwhile"
        running.clear()

    parts = [Part(lambda n=n: read(n), inf) for n in range(6)]
    assert values(read_parts(parts, at_once=4, window_bytes=100)) == list(range(6))


def test_small_files_of_a_remote_store_are_requested_at_once(s3_bucket: S3Bucket) -> None:
    """The server answers the first request for a file when there is a second one, or after a while."""
    uri, count = s3_bucket.folder(), FRAGMENTS * ROWS
    table = pa.table({"id": np.arange(count), "s": [f"row {number}" for number in range(count)]})
    lance_spark.write(table, uri, storage_options=s3_bucket.storage_options, max_rows_per_file=ROWS)
    arrived = Condition()
    waiting, is_overlapped = 0, False

    def next_trouble(request: Seen) -> Trouble | None:
        nonlocal waiting, is_overlapped
        if "/data/" in request.target:
            with arrived:
                waiting += 1
                is_overlapped = is_overlapped or waiting > 1
                arrived.notify_all()
                arrived.wait_for(lambda: is_overlapped, 10)
                waiting -= 1
        return None

    with s3_proxy(s3_bucket.endpoint) as proxy:
        proxy.next_trouble = next_trouble  # type: ignore[method-assign]
        dataset = lance_spark.open(uri, storage_options=s3_bucket.storage_options | {"aws_endpoint": proxy.endpoint})
        cache.shared.clear()
        assert dataset.to_table().equals(table)
    assert is_overlapped
