"""Vector indexes that Spark jobs build."""

from __future__ import annotations

import lance
import numpy as np
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import lance_spark


def insert(spark: SparkSession, name: str, start: int, stop: int) -> None:
    values = np.random.default_rng(start).normal(size=(stop - start, 8)).tolist()
    rows = [(number, number % 2, vector) for number, vector in zip(range(start, stop), values, strict=True)]
    frame = spark.createDataFrame(rows, "id BIGINT, p INT, v ARRAY<FLOAT>").coalesce(1)
    frame.writeTo(name).append()


@pytest.mark.parametrize("partitioned", [False, True])
def test_vector_index_is_built_by_tasks_and_maintained(spark: SparkSession, partitioned: bool) -> None:
    name = f"lance.vector_index_{partitioned}.t".lower()
    spark.sql(f"CREATE NAMESPACE {name.rsplit('.', 1)[0]}")
    by = "PARTITIONED BY (p)" if partitioned else ""
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, p INT, v ARRAY<FLOAT>) USING lance {by} "
        "TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '8')"
    )
    for start in range(0, 900, 300):
        insert(spark, name, start, start + 300)
    options = "num_partitions = 3, num_sub_vectors = 4, num_bits = 4, distance_type = 'cosine', num_segments = 2"
    (made,) = spark.sql(f"ALTER TABLE {name} CREATE INDEX n USING ivf_pq (v) WITH ({options})").collect()
    total = spark.sql(f"SELECT * FROM {name}.fragments").count()
    assert (made.index_name, made.fragments_indexed) == ("n", total)
    (shown,) = spark.sql(f"SHOW INDEXES IN {name}").collect()
    assert (shown.index_type, shown.num_indexed_rows, shown.num_unindexed_rows) == ("ivf_pq", 900, 0)
    insert(spark, name, 900, 1000)
    (refreshed,) = spark.sql(f"ALTER TABLE {name} REFRESH INDEX n").collect()
    assert refreshed.fragments_indexed == spark.sql(f"SELECT * FROM {name}.fragments").count() - total
    (optimized,) = spark.sql(f"ALTER TABLE {name} OPTIMIZE INDEX n WITH (num_indices_to_merge = 10)").collect()
    assert optimized.segments_after == (2 if partitioned else 1)
    (measured,) = spark.sql(f"CALL lance.system.index_recall('{name}', 'n', k => 5, num_queries => 20)").collect()
    assert measured.num_queries == 20
    assert 0.5 <= measured.least_recall <= measured.recall <= 1
    with pytest.raises(AnalysisException, match="num_sub_vectors is 3"):
        spark.sql(f"ALTER TABLE {name} CREATE INDEX n USING ivf_pq (v) WITH (num_sub_vectors = 3)").collect()
    with pytest.raises(AnalysisException, match="IVF_FLAT"):
        spark.sql(f"ALTER TABLE {name} CREATE INDEX m USING ivf_flat (id)").collect()
    if not partitioned:
        location = spark.sql(f"DESCRIBE EXTENDED {name}").where("col_name = 'Location'").collect()[0].data_type
        dataset = lance.dataset(location)
        query = np.random.default_rng(0).normal(size=(300, 8))[7]
        asked = {"column": "v", "q": query, "k": 3, "refine_factor": 5, "nprobes": 3}
        assert dataset.to_table(nearest=asked)["id"].to_pylist()[0] == 7
        assert "ANNSubIndex" in dataset.scanner(nearest=asked).explain_plan()
    spark.sql(f"ALTER TABLE {name} DROP INDEX n")
    assert spark.sql(f"SHOW INDEXES IN {name}").count() == 0


@pytest.mark.parametrize("partitioned", [False, True])
def test_optimize_index_splits_large_partitions(spark: SparkSession, partitioned: bool) -> None:
    name = f"lance.split_index_{partitioned}.t".lower()
    spark.sql(f"CREATE NAMESPACE {name.rsplit('.', 1)[0]}")
    by = "PARTITIONED BY (p)" if partitioned else ""
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, p INT, v ARRAY<FLOAT>) USING lance {by} "
        "TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '8')"
    )
    insert(spark, name, 0, 400)
    options = "target_partition_size = 100, num_sub_vectors = 4, num_bits = 4"
    spark.sql(f"ALTER TABLE {name} CREATE INDEX n USING ivf_pq (v) WITH ({options})").collect()
    insert(spark, name, 400, 3000)
    (optimized,) = spark.sql(f"ALTER TABLE {name} OPTIMIZE INDEX n").collect()
    num_tables = 2 if partitioned else 1
    assert optimized.segments_after == num_tables
    root = spark.sql(f"DESCRIBE EXTENDED {name}").where("col_name = 'Location'").collect()[0].data_type
    segments = lance_spark.open(root).index_statistics("n")["segments"]
    sizes = [[part["size"] for part in segment["partitions"]] for segment in segments]
    assert [sum(own) for own in sizes] == [3000 // num_tables] * num_tables
    # Of four partitions for 400 rows in all, those with more than 400 rows are split.
    for own in sizes:
        assert len(own) > 4 // num_tables
        assert max(own) <= 400
    values = np.random.default_rng(400).normal(size=(2600, 8)).astype("f4")
    for place in (0, 1999):
        distances = ((values[place] - values) ** 2).sum(axis=1)
        query = ", ".join(map(repr, values[place].tolist()))
        (found,) = spark.sql(
            f"SELECT id, _distance FROM vector_search(table => '{name}', query_vector => array({query}), k => 1, "
            "fast_search => true, refine_factor => 20, nprobes => 2)"
        ).collect()
        assert found.id == 400 + int(distances.argmin())
        assert found._distance == pytest.approx(0, abs=1e-5)
