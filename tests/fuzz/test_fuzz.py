"""A few inputs of each target on every run of the tests, and what `make fuzz` has found, as fixed cases."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from lance_spark.errors import CorruptFileError
from lance_spark.table.rows.deletion_vector import DeletionFileType, DeletionVector
from tests.fuzz.targets import TARGETS, made

INPUTS = 12


@pytest.mark.parametrize("target", TARGETS)
def test_damaged_inputs_give_rows_or_an_error(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCE_SPARK_MAX_DECOMPRESSED_BYTES", str(64 << 20))
    for seed in range(INPUTS):
        TARGETS[target].run(made(target, seed))


@pytest.mark.parametrize("target", ["deletions", "filter"])
def test_inputs_of_one_seed_are_equal(target: str) -> None:
    inputs = [made(target, seed) for seed in range(20)]
    assert inputs == [made(target, seed) for seed in range(20)]
    assert len(set(inputs)) > 15


def test_arrow_deletion_file_whose_batch_is_an_end_mark_is_refused() -> None:
    # Arrow's reader of messages raises EOFError there.
    schema = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch([pa.array([1, 2], pa.uint32())], schema=schema))
    content = bytearray(sink.getvalue().to_pybytes())
    size = struct.unpack("<i", content[-10:-6])[0]
    footer = bytes(content[-10 - size : -10])
    marks = [at for at in range(8, len(content) - size - 10, 8) if content[at : at + 4] == b"\xff\xff\xff\xff"]
    # The marks are before the schema, before the batch, and at the end.
    batch, end = marks[1], marks[-1]
    assert footer.count(batch.to_bytes(8, "little")) == 1
    content[-10 - size : -10] = footer.replace(batch.to_bytes(8, "little"), end.to_bytes(8, "little"))
    with pytest.raises(CorruptFileError, match="not an Arrow deletion file"):
        DeletionVector.decode(DeletionFileType.ARROW_ARRAY, bytes(content), physical_rows=9, num_deleted_rows=None)
