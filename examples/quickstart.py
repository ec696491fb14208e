"""Pictures of handwritten digits in a Lance table, written, changed and read by a local Spark.

Run by ``make quickstart``. Takes an optional folder for the table; without it the table lies in a temporary one.
With the connector's jar, which a JDK builds, the table is one of Spark SQL too; without it the plug-in does its part.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from sklearn.datasets import load_digits

import lance_spark

SCHEMA = T.StructType(
    [
        T.StructField("id", T.LongType(), nullable=False),
        T.StructField("label", T.IntegerType()),
        T.StructField("picture", T.BinaryType()),
        T.StructField("vector", T.ArrayType(T.FloatType())),
    ]
)


def png(picture: np.ndarray) -> bytes:
    """An 8-bit gray picture as a PNG file."""
    file = io.BytesIO()
    Image.fromarray(picture.astype(np.uint8)).save(file, "PNG")
    return file.getvalue()


def digits(spark: SparkSession, start: int, stop: int) -> DataFrame:
    """Pictures `start` to `stop` of scikit-learn's digits, with the 64 grey values of each as a vector."""
    data = load_digits()
    rows = [
        (index, int(data.target[index]), png(data.images[index] * 15), (data.data[index] / 16).tolist())
        for index in range(start, stop)
    ]
    return spark.createDataFrame(rows, SCHEMA)


def session(folder: Path) -> tuple[SparkSession, bool]:
    """A local Spark, and whether it has the connector: then a catalog `lance`, whose tables lie in `folder`."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("lance-quickstart")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
    )
    has_connector = True
    try:
        lance_spark.configure(builder, root=str(folder))
    except lance_spark.NotFoundError as error:
        print(f"Without SQL statements: {error}")
        has_connector = False
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark, has_connector


def write_and_read(spark: SparkSession, uri: str) -> None:
    """What both ways into Spark do: a table at a path, its versions, and filters."""
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

    print("The last sevens:")
    sevens = spark.read.format("lance").option("filter", "label = 7 AND id >= 1700").load(uri)
    sevens.selectExpr("id", "label", "length(picture) AS png_bytes", "slice(vector, 1, 4) AS vector_starts").show()


def change(spark: SparkSession, uri: str) -> None:
    """What the connector adds: statements, each of which is one version, and plans that read no more than they need."""
    table = f"lance.`{uri}`"
    spark.sql(f"DELETE FROM {table} WHERE label = 0")
    spark.sql(f"UPDATE {table} SET label = -label WHERE label = 9")
    print("After DELETE and UPDATE, which are one version each:")
    spark.sql(f"SELECT min(label), max(label), count(*) FROM {table}").show()
    print("Before them:")
    spark.sql(f"SELECT min(label), max(label), count(*) FROM {table} VERSION AS OF 2").show()
    print("What was pushed down to the table:")
    spark.sql(f"SELECT id FROM {table} WHERE label = 7 AND id >= 1700 LIMIT 3").explain()


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="lance-quickstart-"))
    uri = str(folder / "digits.lance")
    spark, has_connector = session(folder)
    write_and_read(spark, uri)
    if has_connector:
        change(spark, uri)
    spark.stop()


if __name__ == "__main__":
    main()
