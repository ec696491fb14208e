"""What we write is no larger than Parquet without compression, on the columns that the benchmarks read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.encode import columns
from tests.support.written_files import write_file

ROWS = 200_000
COLUMNS = columns(ROWS)

ALLOWED = {
    # A chunk of 1024 packed values has 20 bytes of its own beside them, where Parquet has none.
    "int64, 10 bits used": 1.01,
    "string, 1,000 words": 1.03,
    # Nulls keep their slot, and these values have no bits to spare.
    "int64, 10 % null": 1.08,
}
"""How many times Parquet's size where the format leaves no other way."""


@pytest.mark.parametrize("name", COLUMNS)
def test_no_larger_than_parquet(tmp_path: Path, name: str) -> None:
    table = pa.table({"c": COLUMNS[name]})
    parquet = tmp_path / "c.parquet"
    pq.write_table(table, parquet, compression="none")
    _, written = write_file(tmp_path, table)
    assert written.size_bytes <= ALLOWED.get(name, 1.0) * parquet.stat().st_size


def test_words_take_a_fraction_of_arrow(tmp_path: Path) -> None:
    table = pa.table({"c": COLUMNS["string, 1,000 words"]})
    assert write_file(tmp_path, table)[1].size_bytes <= 0.15 * table.nbytes
