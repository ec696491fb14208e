"""What a newcomer does first, run by an environment that has the package and its dependencies, and nothing else.

``python first_minutes.py engine FOLDER`` needs the package alone; with ``connector`` or ``plugin`` it needs the extra
``spark`` too. No test tool is imported: the environment has none.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import lance_spark
from lance_spark.index.text.queries import PhraseQuery
from lance_spark.partitioned.dataset import create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity

DEPENDENCIES = ("pyarrow", "protobuf", "numpy", "numba", "pyroaring", "mmh3", "fsspec", "PyStemmer")

WORDS = ("grey cats sleep", "a dog barked at cats", "birds sing", "the grey dog sleeps")


def expect(answer: Any, right: Any) -> None:
    """Ends the program if an answer is not the right one; `assert` would go under ``-O``."""
    if answer != right:
        raise SystemExit(f"{answer!r} instead of {right!r}")


def refused(call: Any, *words: str) -> None:
    """Checks that a call that needs another package says so."""
    try:
        call()
    except lance_spark.LanceError as error:
        expect([word for word in words if word not in str(error)], [])
    else:
        raise SystemExit(f"{call} needs a package that is not here, and did not say so")


def typed_table() -> pa.Table:
    """A column of each kind that is stored in another way, with nulls, and moments that no microsecond holds."""
    moments = pa.array([1, None, 1_700_000_000_123_456_789], pa.timestamp("ns"))
    columns = {
        "id": pa.array([1, 2, 3], pa.int64()),
        "small": pa.array([-1, None, 127], pa.int8()),
        "half": pa.array(np.array([0.5, 1.5, -2.0], np.float16)),
        "name": pa.array(["one", None, "three"]),
        "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
        "at": moments,
        "taken": pa.array([5, None, 7], pa.duration("ns")),
        "price": pa.array([1, None, 3], pa.int64()).cast(pa.decimal128(21, 2)),
        "flags": pa.array([[True], None, []], pa.list_(pa.bool_())),
        "place": pa.array([{"x": 1.0, "y": None}, None, {"x": 2.0, "y": "b"}]),
        "data": pa.array([b"\x00", b"", None], pa.binary()),
    }
    return pa.table(columns)


def engine(folder: Path) -> None:
    """Write, read, change, index and search without Spark."""
    check_types(folder)
    check_changes(folder)
    check_searches(folder)
    check_partitions(folder)
    dataset = lance_spark.open(str(folder / "types"))
    refused(dataset.to_pandas, "pandas")
    refused(dataset.scanner().to_pandas, "pandas")
    refused(dataset.to_polars, "polars")
    for uri, extra in (("s3://a/b", "s3"), ("gs://a/b", "gcs"), ("az://a/b", "azure")):
        refused(lambda uri=uri: lance_spark.open(uri), f"lance-spark[{extra}]")


def check_types(folder: Path) -> None:
    rows = typed_table()
    for file_version in ("2.0", "2.1", "2.2"):
        place = str(folder / f"types-{file_version}")
        plain = rows.drop_columns(["place"]) if file_version == "2.0" else rows
        lance_spark.write(plain, place, file_format_version=file_version)
        expect(lance_spark.open(place).to_table().equals(plain), True)
    dataset = lance_spark.write(rows, str(folder / "types"))
    for condition, ids in (
        ("at > '2023-01-01'", [3]),
        ("at IS NULL", [2]),
        ("price = 3.00", [3]),
        ("name LIKE 't%'", [3]),
        ("place.x >= 1 AND id < 3", [1]),
        ("small + 1 = 0", [1]),
        ("kind = 'y'", [2]),
    ):
        expect(dataset.to_table(["id"], condition).column("id").to_pylist(), ids)
    for column in ("id", "name", "at", "price"):
        dataset.create_index(column, "BTREE")
    expect(dataset.to_table(["id"], "at = '1970-01-01 00:00:00.000000001'").column("id").to_pylist(), [1])
    expect(dataset.to_table(["id"], "price < 3").column("id").to_pylist(), [1])
    expect(dataset.to_table(order_by=[("at", "descending")]).column("id").to_pylist()[0], 3)


def check_changes(folder: Path) -> None:
    place = str(folder / "changes")
    lance_spark.write(typed_table(), place)
    dataset = lance_spark.write(typed_table(), place, mode="append")
    dataset.delete("id = 2")
    dataset.update({"name": "'uno'"}, "id = 1")
    source = typed_table().set_column(3, "name", pa.array(["eins", "zwei", "drei"]))
    dataset = lance_spark.open(place)
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(source.slice(1, 1))
    dataset = lance_spark.open(place)
    dataset.compact()
    dataset = lance_spark.open(place)
    expect(sorted(dataset.to_table(["name"]).column("name").to_pylist()), ["three", "three", "uno", "uno", "zwei"])
    expect(lance_spark.open(place, version=1).to_table().equals(typed_table()), True)


def check_searches(folder: Path) -> None:
    generator = np.random.default_rng(1)
    vectors = generator.standard_normal((512, 8), np.float32)
    items = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), 8)
    words = pa.array([WORDS[number % 4] for number in range(512)])
    rows = pa.table({"id": np.arange(512), "vector": items, "words": words})
    dataset = lance_spark.write(rows, str(folder / "searches"))
    query = {"column": "vector", "q": vectors[77], "k": 1}
    expect(dataset.to_table(["id"], nearest=query).column("id").to_pylist(), [77])
    dataset.create_index("vector", "IVF_PQ", num_partitions=2, num_sub_vectors=4)
    dataset = lance_spark.open(str(folder / "searches"))
    found = dataset.to_table(["id"], nearest={**query, "nprobes": 2, "refine_factor": 100})
    expect(found.column("id").to_pylist(), [77])
    dataset.create_index("words", "INVERTED", with_position=True)
    dataset = lance_spark.open(str(folder / "searches"))
    found = dataset.to_table(["id"], full_text_query="barks", limit=512)
    expect({number % 4 for number in found.column("id").to_pylist()}, {1})
    expect(found.num_rows, 128)
    found = dataset.to_table(["id"], full_text_query=PhraseQuery("grey dog", "words"), limit=512)
    expect({number % 4 for number in found.column("id").to_pylist()}, {3})


def check_partitions(folder: Path) -> None:
    rows = pa.table({"day": pa.array([1, 1, 2], pa.date32()), "id": [1, 2, 3]})
    by = [PartitionBy("day", ("day",), Identity())]
    dataset = create_partitioned_dataset(str(folder / "partitions"), rows.schema, by).append(rows)
    expect(dataset.to_table(["id"], "day = DATE '1970-01-03'").column("id").to_pylist(), [3])
    dataset.delete("id = 1")
    expect(lance_spark.open(str(folder / "partitions")).count_rows(), 2)


def session_builder(folder: Path) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    return builder.config("spark.sql.shuffle.partitions", "2")


def connector(folder: Path) -> None:
    """SQL, searches and streams of the connector."""
    session = lance_spark.configure(session_builder(folder), root=str(folder / "catalog")).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    check_sql(session)
    check_sql_searches(session)
    check_streams(session, folder)
    session.stop()


def plugin(folder: Path) -> None:
    """Writes, reads and streams of the plug-in, which needs no jar."""
    session = session_builder(folder).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    place, copy = str(folder / "plugin"), str(folder / "plugin-copy")
    session.range(10).write.format("lance").mode("append").save(place)
    expect(ids_of(session.read.format("lance").load(place).where("id > 6")), [7, 8, 9])
    rows = session.readStream.format("lance").load(place).writeStream.format("lance").trigger(availableNow=True)
    rows.option("checkpointLocation", str(folder / "checkpoint")).start(copy).awaitTermination()
    expect(ids_of(session.read.format("lance").load(copy)), [*range(10)])
    session.stop()


def ids_of(frame: Any) -> list[int]:
    return sorted(row.id for row in frame.collect())


def check_sql(session: Any) -> None:
    session.sql("CREATE NAMESPACE lance.db")
    session.sql("CREATE TABLE lance.db.t (id BIGINT NOT NULL, city STRING, at TIMESTAMP, price DECIMAL(10, 2))")
    session.sql(
        "INSERT INTO lance.db.t VALUES (1, 'Oslo', TIMESTAMP '2024-01-01 00:00:00', 20.00), (2, 'Rome', NULL, 5.50), "
        "(3, NULL, TIMESTAMP '2024-05-05 05:05:05.123456', NULL)"
    )
    session.sql("UPDATE lance.db.t SET price = price * 2 WHERE city = 'Oslo'")
    session.sql(
        "MERGE INTO lance.db.t AS t USING (SELECT 2L AS id, 'Lima' AS city) AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET city = s.city"
    )
    session.sql("DELETE FROM lance.db.t WHERE city IS NULL")
    session.sql("OPTIMIZE lance.db.t")
    rows = session.sql("SELECT id, city, cast(price AS STRING) AS price FROM lance.db.t ORDER BY id").collect()
    expect([tuple(row) for row in rows], [(1, "Oslo", "40.00"), (2, "Lima", "5.50")])
    expect(ids_of(session.sql("SELECT id FROM lance.db.t VERSION AS OF 2")), [1, 2, 3])
    session.sql("CREATE TABLE lance.db.p (id BIGINT, day DATE) PARTITIONED BY (day)")
    session.sql("INSERT INTO lance.db.p SELECT id, date_add(DATE '2024-01-01', cast(id % 3 AS INT)) FROM range(30)")
    expect(session.sql("SELECT * FROM lance.db.p WHERE day = DATE '2024-01-02'").count(), 10)


def check_sql_searches(session: Any) -> None:
    session.sql(
        "CREATE TABLE lance.db.s (id BIGINT, words STRING, vector ARRAY<FLOAT>) "
        "TBLPROPERTIES ('vector.arrow.fixed-size-list.size' = '4')"
    )
    values = ", ".join(f"({n}, '{WORDS[n % 4]}', array(float({n}), 1f, 0f, 2f))" for n in range(40))
    session.sql(f"INSERT INTO lance.db.s VALUES {values}")
    nearest = "SELECT id FROM vector_search(table => 'lance.db.s', query_vector => array(7.1, 1, 0, 2), k => 1)"
    found = session.sql(nearest).collect()
    expect([row.id for row in found], [7])
    session.sql("ALTER TABLE lance.db.s CREATE INDEX by_words USING fts (words)")
    found = session.sql("SELECT id FROM search(table => 'lance.db.s', query => 'barked', limit => 40)")
    expect({number % 4 for number in ids_of(found)}, {1})


def check_streams(session: Any, folder: Path) -> None:
    session.sql("CREATE TABLE lance.db.copy (id BIGINT, city STRING, at TIMESTAMP, price DECIMAL(10, 2))")
    writer = session.readStream.table("lance.db.t").writeStream.trigger(availableNow=True)
    writer.option("checkpointLocation", str(folder / "checkpoint")).toTable("lance.db.copy").awaitTermination()
    expect(ids_of(session.table("lance.db.copy")), [1, 2])


if __name__ == "__main__":
    part, place = sys.argv[1], Path(sys.argv[2])
    expect(find_spec("pandas"), None)
    shown = " ".join(f"{name} {version(name)}" for name in DEPENDENCIES)
    print(f"Python {sys.version.split()[0]}, {shown}")  # noqa: T201
    {"engine": engine, "connector": connector, "plugin": plugin}[part](place)
