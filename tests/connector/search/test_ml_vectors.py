"""Columns of pyspark.ml: stored as the structs that they are in SQL, and read as vectors and matrices."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.ml import Pipeline
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.functions import array_to_vector, vector_to_array
from pyspark.ml.linalg import DenseMatrix, MatrixUDT, Vectors, VectorUDT
from pyspark.sql import SparkSession
from pyspark.sql import types as st

import lance_spark

DENSE, SPARSE = Vectors.dense([1.0, 2.0, 3.0]), Vectors.sparse(3, {1: 5.0})
MATRIX = DenseMatrix(2, 2, [1.0, 2.0, 3.0, 4.0])


@pytest.mark.slow
def test_vectors_and_matrices_come_back(spark: SparkSession, uri: str) -> None:
    schema = st.StructType().add("id", "long").add("v", VectorUDT()).add("m", MatrixUDT())
    schema = schema.add("s", st.StructType().add("w", VectorUDT())).add("a", st.ArrayType(VectorUDT()))
    rows = [(1, DENSE, MATRIX, (SPARSE,), [DENSE, SPARSE]), (2, SPARSE, None, (None,), []), (3, None, None, None, None)]
    frame = spark.createDataFrame(rows, schema)
    frame.write.format("lance").save(uri)
    frame.writeTo("lance.ml").create()
    frame.limit(1).writeTo("lance.ml").append()
    spark.sql("UPDATE lance.ml SET id = id + 10 WHERE id = 2")
    frame.writeTo("lance.ml_parts").partitionedBy("id").create()
    tables = {"lance.ml": [1, 1, 3, 12], "lance.ml_parts": [1, 2, 3]}
    reads = [(spark.table(name), ids) for name, ids in tables.items()]
    for found, ids in ((spark.read.format("lance").load(uri), [1, 2, 3]), *reads):
        assert found.schema == schema
        read = found.orderBy("id").collect()
        assert [row.id for row in read] == ids
        assert (read[0].v, read[0].m, read[0].s.w, read[0].a) == (DENSE, MATRIX, SPARSE, [DENSE, SPARSE])
        assert read[-1].v == (SPARSE if ids[-1] == 12 else None)
    assert pa.types.is_struct(lance_spark.open(uri).schema.field("v").type)
    assert spark.table("lance.ml").where("v IS NOT NULL").count() == 3


def test_classes_that_a_table_names_are_not_loaded(spark: SparkSession, tmp_path: object) -> None:
    plain = pa.struct([("type", pa.int8()), ("size", pa.int32())])
    for number, name in enumerate(("os.system", "pyspark.ml.linalg.Vectors", "pyspark.ml.linalg.VectorUDT")):
        uri = f"{tmp_path}/{number}"
        field = pa.field("v", plain, metadata={b"lance-spark:udt": name.encode()})
        lance_spark.write(pa.table([pa.array([{"type": 1, "size": 2}], plain)], schema=pa.schema([field])), uri)
        # The last is a known class, but the column is not what it stores.
        found = spark.read.format("lance").load(uri)
        assert isinstance(found.schema["v"].dataType, st.StructType)
        assert found.collect()[0].v.asDict() == {"type": 1, "size": 2}


@pytest.mark.slow
def test_a_pipeline_reads_and_finds_neighbours(spark: SparkSession) -> None:
    frame = spark.range(60).selectExpr("id", "sin(id) AS x", "cos(id) AS y", "double(id % 2) AS label")
    assembled = VectorAssembler(inputCols=["x", "y"], outputCol="features").transform(frame)
    assembled.writeTo("lance.features").create()
    model = Pipeline(stages=[LogisticRegression(maxIter=2)]).fit(spark.table("lance.features"))
    assert model.transform(spark.table("lance.features")).select("prediction").count() == 60
    spark.sql(
        "CREATE TABLE lance.arrays (id BIGINT, v ARRAY<FLOAT>) TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '2')"
    )
    as_array = vector_to_array("features", "float32").alias("v")
    spark.table("lance.features").select("id", as_array).writeTo("lance.arrays").append()
    found = spark.sql("SELECT id FROM vector_search('lance.arrays', array(sin(7), cos(7)), 3) ORDER BY _distance, id")
    nearest = spark.sql("SELECT id FROM lance.arrays ORDER BY lance_distance(v, array(sin(7), cos(7))), id LIMIT 3")
    assert [row.id for row in found.collect()] == [7, 51, 32]
    assert [row.id for row in nearest.collect()] == [7, 51, 32]
    wrong = spark.createDataFrame([(99, DENSE)], st.StructType().add("id", "long").add("features", VectorUDT()))
    with pytest.raises(PySparkException, match=r"lists of 2 items, and row \d+ of its batch .*has one of 3"):
        wrong.select("id", as_array).writeTo("lance.arrays").append()
    back = spark.table("lance.arrays").select(array_to_vector("v").alias("features"))
    assert back.schema["features"].dataType == VectorUDT()
