"""Pictures of handwritten digits found by likeness, by words, and by both, in a Lance table without Spark.

Run ``python examples/search_images.py [folder]``. Needs scikit-learn, which brings the pictures. The vector of a
picture is its first principal components. The hits are drawn into ``hits.png`` of the folder: each row begins with the
picture that is searched, and its nearest pictures follow.
"""

from __future__ import annotations

import struct
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import lance_spark

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
DIMENSION = 16
NUM_QUERIES, NUM_DRAWN, K, SCALE = 200, 10, 9, 4


def png(picture: npt.NDArray[np.uint8]) -> bytes:
    """An 8-bit grey picture as a PNG file."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = picture.shape
    rows = b"".join(b"\0" + row.tobytes() for row in picture)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def plot(pictures: npt.NDArray[np.uint8], rows: list[list[int]]) -> bytes:
    """Pictures in rows, the first of each row set apart, as a PNG file."""
    size = pictures.shape[1] * SCALE + SCALE
    canvas = np.full((len(rows) * size, len(rows[0]) * size + size // 2), 255, np.uint8)
    for top, row in enumerate(rows):
        for place, number in enumerate(row):
            left = place * size + (size // 2 if place else 0)
            shown = 255 - np.kron(pictures[number], np.ones((SCALE, SCALE), np.uint8))
            canvas[top * size : top * size + len(shown), left : left + len(shown)] = shown
    return png(canvas)


def written(folder: Path, digits: Any, pictures: npt.NDArray[np.uint8]) -> lance_spark.Dataset:
    """The table: a number, the word for the digit, the picture, and its vector."""
    vectors = PCA(DIMENSION, random_state=0).fit_transform(digits.data).astype(np.float32)
    table = pa.table(
        {
            "id": range(len(pictures)),
            "word": [f"a handwritten {WORDS[label]}" for label in digits.target],
            "picture": [png(picture) for picture in pictures],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSION),
        }
    )
    return lance_spark.write(table, str(folder / "digits.lance"), mode="overwrite")


def main(folder: Path) -> None:
    digits = load_digits()
    pictures = (digits.images * 255 / 16).astype(np.uint8)
    dataset = written(folder, digits, pictures)
    vectors = np.array(dataset.to_table(["vector"])["vector"].to_pylist(), np.float32)

    queries = list(range(NUM_QUERIES))
    found = dataset.nearest("vector", vectors[queries], K + 1, columns=["id", "word"])
    hits = [[row["id"] for row in found.to_pylist() if row["query_index"] == query] for query in queries]
    same = [digits.target[hit] == digits.target[query] for query in queries for hit in hits[query][1:]]
    print(f"nearest pictures with the digit of the query: {np.mean(same):.0%}")

    sevens = dataset.search("seven", columns=["id", "word"], limit=3)
    print("by words:", sevens["word"].to_pylist())

    # A nine that is written almost like a seven: words and likeness together.
    nine = int(np.flatnonzero(digits.target == 9)[5])
    both = dataset.hybrid_search("vector", vectors[nine], "seven", 3, columns=["id", "word"], candidates=200)
    print("by both:", both["word"].to_pylist())

    (folder / "hits.png").write_bytes(plot(pictures, hits[:NUM_DRAWN]))
    print("plot:", folder / "hits.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()))
