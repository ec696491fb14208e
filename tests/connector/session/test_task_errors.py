"""Errors inside tasks: the same exception, condition, SQLSTATE and one sentence as of errors at planning."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from lance_spark.spark.compat import SPARK
from lance_spark.spark.session import CATALOG_CLASS

CORRUPT = ("LANCE_CORRUPT_FILE", "XXKD0")
NOT_FOUND = ("LANCE_NOT_FOUND", "42704")
INVALID = ("LANCE_INVALID_INPUT", "22023")


@dataclass(frozen=True)
class Table:
    """A table of the test's own catalog."""

    name: str
    folder: Path

    def files(self, pattern: str) -> list[Path]:
        """Those of the table, or of its partitions, but not of catalogs."""
        return [path for path in self.folder.rglob(pattern) if "__manifest" not in path.parts]

    @property
    def data(self) -> list[Path]:
        return self.files("data/*.lance")


@pytest.fixture(params=["plain", "partitioned"])
def table(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Table]:
    """1000 rows; a half float and a vector, whose own types cannot hold all values of Spark's."""
    # Spark keeps a catalog as it was when it was first asked for.
    catalog = re.sub(r"\W", "_", f"c_{tmp_path.name}")
    spark.conf.set(f"spark.sql.catalog.{catalog}", CATALOG_CLASS)
    spark.conf.set(f"spark.sql.catalog.{catalog}.root", str(tmp_path))
    name = f"{catalog}.t"
    by = "PARTITIONED BY (part)" if request.param == "partitioned" else ""
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, part BIGINT, word STRING, half FLOAT, vec ARRAY<FLOAT>) {by} "
        "TBLPROPERTIES ('half.arrow.float16' = 'true', 'vec.arrow.fixed-size-list.size' = '2')"
    )
    spark.sql(f"INSERT INTO {name} SELECT id, id % 2, concat('n', id), 1.0, array(1.0, 2.0) FROM range(0, 1000, 1, 1)")
    yield Table(name, tmp_path)
    spark.sql(f"DROP TABLE IF EXISTS {name} PURGE")


def caught(run: Callable[[], object]) -> AnalysisException:
    """The error of `run`, which is one line without names of classes."""
    with pytest.raises(AnalysisException) as raised:
        run()
    text = str(raised.value)
    assert len(text.splitlines()) == 1, text
    assert "Error" not in text, text
    return raised.value


def kind(error: AnalysisException) -> tuple[str | None, str | None]:
    return error.getCondition(), error.getSqlState()


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


STATEMENTS = (
    "SELECT * FROM {}",
    "SELECT count(word) FROM {} WHERE hash(id) % 3 = 0",
    "INSERT INTO {0} SELECT id + 1000, part, word, half, vec FROM {0}",
    "DELETE FROM {} WHERE hash(word) % 3 = 0",
    "UPDATE {} SET word = upper(word) WHERE hash(word) % 3 = 0",
)


@pytest.mark.slow
@pytest.mark.parametrize("statement", STATEMENTS)
def test_missing_data_file(spark: SparkSession, table: Table, statement: str) -> None:
    for path in table.data:
        path.rename(path.with_suffix(".away"))
    error = caught(lambda: spark.sql(statement.format(table.name)).collect())
    assert kind(error) == NOT_FOUND
    assert any(path.stem in str(error) for path in table.files("data/*.away"))
    assert table.data == []


@pytest.mark.slow
@pytest.mark.parametrize("statement", STATEMENTS)
def test_corrupt_data_file(spark: SparkSession, table: Table, statement: str) -> None:
    before = table.data
    for path in before:
        truncate(path)
    error = caught(lambda: spark.sql(statement.format(table.name)).collect())
    assert kind(error) == CORRUPT
    assert any(f"{path.name} in {path.parent.parent}" in str(error) for path in before), str(error)
    assert table.data == before


@pytest.mark.slow
def test_truncated_deletion_file(spark: SparkSession, table: Table) -> None:
    spark.sql(f"DELETE FROM {table.name} WHERE id < 200 AND hash(id) % 3 = 0")
    deletions = [*table.files("_deletions/*.arrow"), *table.files("_deletions/*.bin")]
    assert deletions
    for path in deletions:
        path.write_bytes(path.read_bytes()[:5])
    error = caught(lambda: spark.table(table.name).collect())
    assert kind(error) == CORRUPT
    assert any(f"{path.name} in {path.parent.parent}" in str(error) for path in deletions), str(error)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param("1L, 1L, 'a', 1e6F, array(1.0F, 2.0F)", "has a value of type", id="half"),
        pytest.param("1L, 1L, 'a', 1.0F, array(1.0F, 2.0F, 3.0F)", "takes lists of 2 items", id="vector"),
    ],
)
def test_value_that_does_not_fit(spark: SparkSession, table: Table, values: str, message: str) -> None:
    before = table.data
    frame = spark.sql(f"SELECT {values}").toDF("id", "part", "word", "half", "vec")
    source = f"(SELECT {values})"
    for write in (
        lambda: frame.writeTo(table.name).append(),
        lambda: spark.sql(f"INSERT INTO {table.name} {source}"),
        lambda: spark.sql(
            f"MERGE INTO {table.name} t USING (SELECT * FROM VALUES ({values}) AS s(id, part, word, half, vec)) s "
            "ON t.id = s.id + 5000 WHEN NOT MATCHED THEN INSERT *"
        ),
    ):
        error = caught(write)
        assert kind(error) == INVALID
        assert message in str(error)
    error = caught(lambda: spark.sql(f"UPDATE {table.name} SET half = 1e6F WHERE hash(id) % 3 = 0"))
    assert kind(error) == INVALID
    assert "has a value of type" in str(error)
    assert table.data == before
    assert spark.table(table.name).count() == 1000


def test_store_failure(spark: SparkSession, table: Table) -> None:
    data = table.data
    for path in data:
        path.unlink()
        path.symlink_to(path)  # Too many levels of symbolic links.
    error = caught(lambda: spark.table(table.name).collect())
    for path in data:
        path.unlink()
    assert kind(error) == ("LANCE_STORAGE_FAILED", "58030" if SPARK >= (4, 1) else None)


@pytest.mark.slow
def test_jobs_of_procedures(spark: SparkSession, table: Table) -> None:
    spark.sql(f"INSERT INTO {table.name} SELECT id, id % 2, 'more', 1.0, array(1.0, 2.0) FROM range(1000, 1010, 1, 1)")
    for path in table.data:
        truncate(path)
    error = caught(lambda: spark.sql(f"OPTIMIZE {table.name}").collect())
    assert kind(error) == CORRUPT
