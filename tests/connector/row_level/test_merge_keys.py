"""MERGE, UPDATE and DELETE read only the rows that have a key of a small source, and do the same without that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lance_spark
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.transforms.bucket import Bucket
from lance_spark.partitioned.transforms.identity import Identity
from tests.partitioned.verbs import save_rows

ENABLED = "spark.sql.lance.mergeKeys.enabled"
ROWS = 120_000
MERGE = "MERGE INTO {t} t USING source s ON t.id = s.id "
KEYS = "dynamicpruning"

NULL_KEY, NAN = None, float("nan")


def rows() -> pa.Table:
    ids = range(ROWS)
    return pa.table(
        {
            "id": pa.array([NULL_KEY if number % 1000 == 999 else number * 7919 % ROWS for number in ids], pa.int64()),
            "x": pa.array([NAN if number % 500 == 0 else -0.0 if number == 1 else number / 2 for number in ids]),
            "part": pa.array([None if number % 5 == 4 else number % 5 for number in ids], pa.int32()),
            "s": pa.array([{"key": number % 2000} for number in ids]),
            "word": pa.array([f"w{number}" for number in ids]),
        }
    )


@pytest.fixture(autouse=True)
def restored(spark: SparkSession) -> Iterator[None]:
    yield
    spark.conf.unset(ENABLED)


def made(folder: Path, kind: str) -> str:
    """A table of `rows`; its name in SQL."""
    uri = str(folder)
    if kind == "plain":
        table = lance_spark.write(rows(), uri, max_rows_per_file=ROWS // 4)
        table.create_scalar_index("id", "BTREE")
    else:
        by = [PartitionBy("part", ("part",), Identity()), PartitionBy("id_bucket", ("id",), Bucket(3))]
        save_rows(create_partitioned(uri, rows().schema, by), rows())
    return f"lance.`{uri}`"


def source(spark: SparkSession) -> None:
    """Keys that the table has, that it lacks, and null."""
    values = ", ".join(
        f"({key}, {x}, {part}, named_struct('key', {inner}L), 's{key}')"
        for key, x, part, inner in [
            (3, "double('NaN')", "0", 5),
            (77, "double('0.0')", "null", 1999),
            (ROWS - 1, "1.5D", "2", 0),
            (ROWS + 5, "double('NaN')", "1", 3000),
            ("cast(null as bigint)", "cast(null as double)", "3", 1),
        ]
    )
    spark.sql(
        f"CREATE OR REPLACE TEMP VIEW source AS SELECT bigint(id) AS id, x, int(part) AS part, s, word "
        f"FROM VALUES {values} AS v (id, x, part, s, word)"
    )


def content(folder: Path) -> pa.Table:
    """All rows in an order of their own; numbers as texts, for NaN is not equal to itself."""
    table = lance_spark.open(folder).to_table(["id", "x", "part", "word"])
    table = table.set_column(1, "x", table["x"].cast(pa.string()))
    return table.sort_by([(name, "ascending") for name in ("word", "id", "x", "part")]).combine_chunks()


STATEMENTS = {
    "update": MERGE + "WHEN MATCHED THEN UPDATE SET word = s.word",
    "upsert": MERGE + "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "upsert and delete": MERGE + "WHEN MATCHED AND s.id = 3 THEN DELETE WHEN NOT MATCHED THEN INSERT *",
    "insert": MERGE + "WHEN NOT MATCHED THEN INSERT *",
    "two keys": "MERGE INTO {t} t USING source s ON t.id = s.id AND t.part = s.part WHEN MATCHED THEN UPDATE SET "
    "word = 'two' WHEN NOT MATCHED THEN INSERT *",
    "member": "MERGE INTO {t} t USING (SELECT DISTINCT s FROM source) s ON t.s.key = s.s.key WHEN MATCHED THEN DELETE",
    "delete": "DELETE FROM {t} WHERE id IN (SELECT id FROM source)",
    "delete exists": "DELETE FROM {t} t WHERE EXISTS (SELECT 1 FROM source s WHERE s.id = t.id AND s.word <> t.word)",
    "update in": "UPDATE {t} SET word = 'u' WHERE id IN (SELECT id FROM source)",
}
FIRST = "(SELECT *, row_number() OVER (PARTITION BY id ORDER BY word) AS n FROM source)"
UNPRUNED = {
    "not matched by source": MERGE + "WHEN MATCHED THEN UPDATE SET word = 'm' WHEN NOT MATCHED BY SOURCE AND t.id < 50 "
    "THEN DELETE",
    "null-safe": "MERGE INTO {t} t USING source s ON t.id <=> s.id AND t.word = 'w999' WHEN MATCHED THEN DELETE",
    "delete not in": "DELETE FROM {t} WHERE id NOT IN (SELECT id FROM source WHERE id IS NOT NULL) AND part = 1",
    "limit": "MERGE INTO {t} t USING (SELECT id FROM range(1000) LIMIT 10) s ON t.id = s.id WHEN MATCHED THEN UPDATE "
    "SET word = 'l' WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
    "window": f"MERGE INTO {{t}} t USING (SELECT * FROM {FIRST} WHERE n = 1) s ON t.id = s.id WHEN MATCHED THEN UPDATE "
    "SET word = s.word WHEN NOT MATCHED THEN INSERT (id, word) VALUES (s.id, s.word)",
    "sum of doubles": "MERGE INTO {t} t USING (SELECT id, sum(x) AS x FROM source GROUP BY id) s ON t.id = s.id WHEN "
    "MATCHED THEN UPDATE SET x = s.x",
    "null part": "UPDATE {t} SET word = 'n' WHERE part IS NULL AND id < 100",
}


def explained(spark: SparkSession, text: str) -> str:
    return str(spark.sql(f"EXPLAIN {text}").first()[0])


PARTITIONED = ["upsert", "insert", "two keys", "delete", "null part"]
CASES = [*(("plain", name) for name in (STATEMENTS | UNPRUNED)), *(("partitioned", name) for name in PARTITIONED)]


@pytest.mark.slow
@pytest.mark.tasks
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_same_rows_with_and_without(spark: SparkSession, tmp_path: Path, kind: str, name: str) -> None:
    source(spark)
    found = {}
    for value in ("true", "false"):
        spark.conf.set(ENABLED, value)
        table = made(tmp_path / value, kind)
        before = content(tmp_path / value)
        text = (STATEMENTS | UNPRUNED)[name].format(t=table)
        assert (KEYS in explained(spark, text)) is (value == "true" and name in STATEMENTS)
        spark.sql(text)
        found[value] = content(tmp_path / value)
        assert not found[value].equals(before)
    assert found["true"].equals(found["false"])
