"""What reading costs, as tasks tell it to Spark's UI."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pytest

from lance_spark.errors import NotFoundError
from lance_spark.storage import open_store
from lance_spark.storage.base import ByteRange
from lance_spark.storage.meter import READS, ReadCounts
from tests.support.moto import S3Bucket


def counted(before: ReadCounts) -> tuple[int, int]:
    done = READS.counts - before
    assert done.seconds > 0
    return done.requests, done.num_bytes


def test_reads_of_files(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    store.put("a", b"0123456789")
    before = READS.counts
    store.read("a")
    store.read_ranges("a", [ByteRange(0, 2), ByteRange(5, 3)])
    assert counted(before) == (3, 15)
    before = READS.counts
    with pytest.raises(NotFoundError):
        store.read("b")
    assert counted(before) == (1, 0)


def test_requests_to_s3(s3_bucket: S3Bucket) -> None:
    store = open_store(f"{s3_bucket.uri}/{uuid.uuid4().hex}", s3_bucket.storage_options)
    gap = 4 << 20
    store.put("a", pa.py_buffer(bytes(2 * gap)))
    before = READS.counts
    store.read_ranges("a", [ByteRange(0, 10), ByteRange(20, 10), ByteRange(gap, 10)])
    assert counted(before) == (2, 40)
    before = READS.counts
    store.read("a")
    assert counted(before) == (1, 2 * gap)
