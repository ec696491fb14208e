"""A data file of 637 bytes, written by hand; the reference library reads it too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

from lance_spark.errors import LanceError
from lance_spark.file.open_file import open_data_file
from lance_spark.storage import open_store
from tests.file.reference_files import open_file

# Offset: bytes. What is not named is zero.
PARTS = {
    # The chunk word of `a`: 32 bytes, in pages with large chunks a u32.
    0x00: "30000000",
    # Its chunk: no levels, 24 bytes of values, padding, three int64.
    0x40: "0000 18000000 fefe 0500000000000000 0600000000000000 0700000000000000",
    # The chunk word of `s`: 40 bytes.
    0x80: "40000000",
    # Its chunk: 3 levels in 6 bytes, 20 bytes of values, padding; levels 0 1 0; offsets 16 17 17 19, "xyz", filler.
    0xC0: "0300 0600 14000000 0000 0100 0000 fefe 10000000 11000000 11000000 13000000 78797a48 fefefefe",
    0x100: """
        0a370a17 12016120 ffffffff ffffffff ff012a05 696e7436 3438010a 1c120173
        180120ff ffffffff ffffffff 012a0673 7472696e 67300138 0210030a 2912270a
        250a1f2f 6c616e63 652e656e 636f6469 6e67732e 436f6c75 6d6e456e 636f6469
        6e671202 0a001242 0a020040 12020420 18032236 12340a32 0a1d2f6c 616e6365
        2e656e63 6f64696e 67733231 2e506167 654c6179 6f757412 110a0f1a 040a0208
        40320101 38014803 50010a29 12270a25 0a1f2f6c 616e6365 2e656e63 6f64696e
        67732e43 6f6c756d 6e456e63 6f64696e 6712020a 00124e0a 048001c0 01120204
        28180322 40123e0a 3c0a1d2f 6c616e63 652e656e 636f6469 6e677332 312e5061
        67654c61 796f7574 121b0a19 12040a02 08101a08 12060a04 0a020820 32010338
        01480350 013b0100 00000000 006f0000 00000000 00aa0100 00000000 007b0000
        00000000 00000100 00000000 003b0000 00000000 003b0100 00000000 00250200
        00000000 00450200 00000000 00010000 00020000 00020002 004c414e 43""",
}
EXPECTED = pa.table(
    [pa.array([5, 6, 7]), pa.array(["x", None, "yz"])],
    schema=pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("s", pa.string())]),
)


def smallest() -> bytes:
    content = bytearray(637)
    for offset, text in PARTS.items():
        part = bytes.fromhex(text)
        content[offset : offset + len(part)] = part
    return bytes(content)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "d.lance"
    path.write_bytes(smallest())
    return path


def test_it_is_read(path: Path) -> None:
    assert open_file(path).read_table().equals(EXPECTED)
    assert LanceFileReader(str(path)).read_all().to_table().equals(EXPECTED)


def test_truncated_anywhere(tmp_path: Path) -> None:
    store = open_store(f"memory://{tmp_path.name}")
    for length in range(637):
        store.put("d.lance", smallest()[:length])
        with pytest.raises(LanceError, match="d\\.lance"):
            open_data_file(store, "d.lance").read_table()


def test_every_byte_changed(tmp_path: Path) -> None:
    store = open_store(f"memory://{tmp_path.name}")
    rng = np.random.default_rng(0)
    for position in range(637):
        for flip in {0x01, 0x80, 0xFF, int(rng.integers(1, 256))}:
            content = bytearray(smallest())
            content[position] ^= flip
            store.put("d.lance", bytes(content))
            try:
                open_data_file(store, "d.lance").read_table().validate(full=True)
            except LanceError:
                continue
