"""Pictures of handwritten digits in a Lance table, written and read by a local Spark.

Run by ``make quickstart``. Takes an optional folder for the table; without it the table lies in a temporary one.
"""

from __future__ import annotations

import os
import struct
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from sklearn.datasets import load_digits

SCHEMA = T.StructType(
    [
        T.StructField("id", T.LongType(), nullable=False),
        T.StructField("label", T.IntegerType()),
        T.StructField("picture", T.BinaryType()),
        T.StructField("vector", T.ArrayType(T.FloatType())),
    ]
)


def png(picture: np.ndarray) -> bytes:
    """An 8-bit grey picture as a PNG file."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = picture.shape
    rows = b"".join(b"\0" + row.tobytes() for row in picture.astype(np.uint8))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def digits(spark: SparkSession, start: int, stop: int) -> DataFrame:
    """Pictures `start` to `stop` of scikit-learn's digits, with the 64 grey values of each as a vector."""
    data = load_digits()
    rows = [
        (index, int(data.target[index]), png(data.images[index] * 15), (data.data[index] / 16).tolist())
        for index in range(start, stop)
    ]
    return spark.createDataFrame(rows, SCHEMA)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="lance-quickstart-"))
    uri = str(folder / "digits.lance")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("lance-quickstart")
        .config("spark.ui.enabled", "false")
        # Spark hands filters to Python data sources only if told so; without it, it filters by itself.
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")

    print(f"\nWriting 1,000 digits to {uri}, then appending 797 more")
    # Spark has no lists of fixed size; the option makes the column one, and later appends keep it.
    first_part = digits(spark, 0, 1000).write.format("lance").option("vector.arrow.fixed-size-list.size", 64)
    first_part.mode("append").save(uri)
    digits(spark, 1000, 1797).write.format("lance").mode("append").save(uri)

    table = spark.read.format("lance").load(uri)
    table.printSchema()
    print(f"The newest version has {table.count()} rows.")
    first = spark.read.format("lance").option("version", 1).load(uri)
    print(f"Version 1 has {first.count()} rows.")

    print("\nHow many of each digit:")
    table.groupBy("label").count().orderBy("label").show()

    print("The last sevens, and what was pushed down to the table:")
    # A frame of its own, because Spark mixes up the pushed filters of several queries over one frame.
    sevens = spark.read.format("lance").option("pushDownFilters", "true").load(uri).where("label = 7 AND id >= 1700")
    sevens = sevens.selectExpr("id", "label", "length(picture) AS png_bytes", "slice(vector, 1, 4) AS vector_starts")
    sevens.show()
    sevens.explain("formatted")
    spark.stop()


if __name__ == "__main__":
    main()
