"""Pictures of handwritten digits found by likeness, by words, and by both, in a Lance table without Spark.

Run ``python examples/search_images.py [folder]``. Needs scikit-learn, which brings the pictures, Pillow and matplotlib.
The vector of a picture is its first principal components. The hits are drawn into ``hits.png`` of the folder: each row
begins with the picture that is searched, and its nearest pictures follow.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import lance_spark

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
DIMENSION = 16
NUM_QUERIES, NUM_DRAWN, K = 200, 10, 9


def png(picture: npt.NDArray[np.uint8]) -> bytes:
    """An 8-bit gray picture as a PNG file."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "PNG")
    return file.getvalue()


def draw(pictures: npt.NDArray[np.uint8], rows: list[list[int]], path: Path) -> None:
    """Draws pictures in rows, the first of each row set apart, into the PNG file at `path`."""
    widths = [1, 0.5] + [1] * (len(rows[0]) - 1)
    grid = {"width_ratios": widths, "left": 0.01, "right": 0.99, "bottom": 0.01, "top": 0.99}
    figure, places = plt.subplots(len(rows), len(widths), figsize=(5, 5), gridspec_kw=grid)
    for axes in places.flat:
        axes.set_axis_off()
    for row, numbers in zip(places, rows, strict=True):
        for axes, number in zip(np.delete(row, 1), numbers, strict=True):
            axes.imshow(pictures[number], cmap="gray_r")
    figure.savefig(path, dpi=80)


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

    draw(pictures, hits[:NUM_DRAWN], folder / "hits.png")
    print("plot:", folder / "hits.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()))
