"""The same 2.0 file by both libraries."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from lance.file import LanceFileWriter

from tests.layouts.v2_0.files import OpenFile
from tests.support import arrays


def write(path: Path, table: pa.Table, **options: int) -> OpenFile:
    """`table` in one file, one `write_batch` a chunk."""
    with LanceFileWriter(str(path), table.schema, version="2.0", **options) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch)
    return OpenFile.open(path)


def both(rows: int, share: float, seed: int) -> pa.Table:
    tables = (
        arrays.leaves_table(rows, share, seed),
        arrays.nested_table(rows, share, seed, maps=False, null_structs=False),
    )
    return pa.table({name: table[name] for table in tables for name in table.column_names})
