"""Files of values that are written before there is a row for them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lance_spark
from lance_spark import blob_field
from lance_spark.blobs import writer
from lance_spark.errors import InvalidInputError, NotFoundError
from tests.support.forked import Report, fork
from tests.support.process_memory import anonymous_bytes

MIB = 1 << 20


def table_at(path: Path) -> str:
    schema = pa.schema([pa.field("id", pa.int64()), blob_field("img")])
    lance_spark.write(pa.table({"id": [1], "img": [b"x" * 100_000]}, schema=schema), str(path))
    return str(path)


def blobs(uri: str) -> list[Path]:
    return sorted(Path(uri).rglob("*.blob"))


def test_a_value_exists_once_it_is_closed(tmp_path: Path) -> None:
    uri = table_at(tmp_path / "t")
    own = blobs(uri)
    with writer(uri) as file:
        assert file.write(b"ab") == 2
        file.write(memoryview(bytearray(3 * MIB)))
        file.write(b"cd")
        assert file.tell() == 3 * MIB + 4
        assert blobs(uri) == own
        with pytest.raises(InvalidInputError, match="once its file was closed"):
            _ = file.uri
    assert Path(file.uri).read_bytes() == b"ab" + bytes(3 * MIB) + b"cd"
    with pytest.raises(ValueError, match="closed"):
        file.write(b"more")
    file.close()
    assert len(blobs(uri)) == len(own) + 1
    with pytest.raises(NotFoundError):
        writer(str(tmp_path / "none"))


def test_half_a_value_is_never_there(tmp_path: Path) -> None:
    uri = table_at(tmp_path / "t")
    own = blobs(uri)

    def broken() -> Iterator[bytes]:
        yield bytes(2 * MIB)
        raise OSError("the source broke")

    file = writer(uri)
    with pytest.raises(OSError, match="source"), file:
        file.writelines(broken())
    with pytest.raises(InvalidInputError, match="without an error"):
        _ = file.uri
    left_open = writer(uri)
    left_open.write(bytes(2 * MIB))
    del left_open
    assert blobs(uri) == own


def test_what_a_killed_process_leaves_is_removed(tmp_path: Path) -> None:
    uri = table_at(tmp_path / "t")
    own = [path for path in Path(uri).rglob("*") if path.is_file()]

    def killed(_report: Report) -> None:
        with writer(uri) as done:
            done.write(b"complete, but no row has it")
        file = writer(uri)
        file.write(bytes(2 * MIB))
        os.kill(os.getpid(), signal.SIGKILL)

    assert fork(killed).join() == -signal.SIGKILL
    assert len(blobs(uri)) == 2
    lance_spark.open(uri).remove_orphans(timedelta(0))
    assert sorted(path for path in Path(uri).rglob("*") if path.is_file()) == sorted(own)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of the process from /proc")
def test_many_bytes_pass_in_small_memory(tmp_path: Path) -> None:
    """512 MiB of values are written, moved by an update, compacted and read, in less than 256 MiB."""
    value, schema = bytes(8 * MIB), pa.schema([pa.field("id", pa.int64()), blob_field("img")])
    before, peak = anonymous_bytes(), 0

    def rows(first: int) -> Iterator[pa.RecordBatch]:
        nonlocal peak
        for number in range(first, first + 32):
            peak = max(peak, anonymous_bytes())
            yield pa.RecordBatch.from_pydict({"id": [number], "img": [value]}, schema=schema)

    uri = str(tmp_path / "t")
    lance_spark.write(rows(0), uri)
    lance_spark.write(rows(32), uri, mode="append")
    lance_spark.open(uri).update({"id": "id + 100"}, "id % 2 = 0")
    peak = max(peak, anonymous_bytes())
    lance_spark.open(uri).compact()
    peak = max(peak, anonymous_bytes())
    num_bytes = 0
    for batch in lance_spark.open(uri).scan(blob_handling="all_binary"):
        num_bytes += sum(len(data.as_buffer()) for data in batch["img"])
        peak = max(peak, anonymous_bytes())
    assert num_bytes == 512 * MIB
    assert peak - before < 256 * MIB
