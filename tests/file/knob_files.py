"""Writes the files of `test_forced_layouts` in a process of its own: the reference library reads its environment once.

Usage: python -m tests.file.knob_files FOLDER VERSION
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from lance.file import LanceFileWriter

from tests.support import arrays

KNOBS = {
    "LANCE_MINIBLOCK_MAX_VALUES": "32768",
    "LANCE_BINARY_MINIBLOCK_CHUNK_SIZE": "32000",
    "LANCE_ENCODING_DICT_TOO_SMALL": "4",
    "LANCE_FILE_WRITER_MAX_PAGE_BYTES": "200000",
}
ROWS = 60_000


def tables() -> dict[str, pa.Table]:
    """Columns for which the knobs matter; `metadata` forces what the environment does not."""
    rng = np.random.default_rng(11)
    numbers = pa.array(rng.integers(0, 1 << 40, ROWS), mask=rng.random(ROWS) < 0.1)
    small = pa.array(rng.integers(0, 100, ROWS).astype(np.int32))
    words = arrays.leaf(pa.string(), ROWS, 0.1, rng)
    lists = arrays.list_of(lambda k: arrays.leaf(pa.int32(), k, 0.1, rng), ROWS, 0.1, rng)
    return {
        "large chunks": pa.table({"n": numbers, "s": small, "w": words, "l": lists}),
        "few distinct": pa.table({"d": arrays.leaf(pa.dictionary(pa.int8(), pa.string()), 40, 0.2, rng)}),
        "pages": pa.table({"w": words, "l": lists, "v": arrays.leaf(pa.list_(pa.float32(), 96), ROWS, 0.1, rng)}),
    }


def main(folder: Path, version: str) -> None:
    for name, table in tables().items():
        with LanceFileWriter(str(folder / f"{name}.lance"), table.schema, version=version) as writer:
            writer.write_batch(table)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
