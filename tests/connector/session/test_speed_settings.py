"""What scans do for speed has settings: each has its effect, and without it the rows are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import lance_spark
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.transforms.identity import Identity
from tests.partitioned.verbs import save_rows
from tests.support.connector.plans import plan
from tests.support.connector.scan_requests import sent

pytestmark = pytest.mark.tasks

ROWS = 120_000
PREFIX = "spark.sql.lance."
INLINE = f"{PREFIX}inlineBytes"
SWITCHES = ("topN.enabled", "aggregates.enabled", "selectivity.enabled")
BROADCAST = "spark.sql.autoBroadcastJoinThreshold"


def rows() -> pa.Table:
    ids = range(ROWS)
    return pa.table(
        {
            "id": pa.array([number * 7919 % ROWS for number in ids], pa.int64()),
            "k": pa.array([None if number % 5 == 4 else number % 5 for number in ids], pa.int32()),
            "n": pa.array([number % 100 for number in ids], pa.int64()),
        }
    )


@pytest.fixture(scope="module", params=["plain", "partitioned"])
def uri(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    root = str(tmp_path_factory.mktemp("settings") / request.param)
    if request.param == "plain":
        lance_spark.write(rows(), root, max_rows_per_file=ROWS // 4)
    else:
        save_rows(create_partitioned(root, rows().schema, [PartitionBy("k", ("k",), Identity())]), rows())
    return root


@pytest.fixture(autouse=True)
def restored(spark: SparkSession) -> Iterator[None]:
    broadcast = spark.conf.get(BROADCAST)
    yield
    for name in SWITCHES:
        spark.conf.unset(PREFIX + name)
    spark.conf.set(BROADCAST, broadcast or "10485760")


def query(spark: SparkSession, uri: str, text: str) -> DataFrame:
    return spark.sql(text.format(t=f"lance.`{uri}`"))


def both(spark: SparkSession, uri: str, setting: str, text: str) -> tuple[DataFrame, DataFrame]:
    """A query with and without a setting, whose rows are the same and not none."""
    frames = []
    for value in ("true", "false"):
        spark.conf.set(PREFIX + setting, value)
        frame = query(spark, uri, text)
        frames.append((frame, [tuple(row) for row in frame.collect()], plan(frame)))
    (on, expected, _), (off, found, _) = frames
    assert found == expected
    assert found
    return on, off


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id, k FROM {t} ORDER BY id LIMIT 7",
        "SELECT id, k FROM {t} ORDER BY k DESC NULLS FIRST, id LIMIT 11",
        "SELECT id FROM {t} WHERE n < 3 ORDER BY id DESC LIMIT 5",
    ],
)
def test_top_n_off_gives_the_same_rows(spark: SparkSession, uri: str, text: str) -> None:
    on, off = both(spark, uri, "topN.enabled", text)
    assert "top=" in plan(on)
    assert "top=" not in plan(off)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SELECT count(*) FROM {t}", "LocalTableScan"),
        ("SELECT min(id), max(id), sum(n), count(k) FROM {t}", "aggregates=["),
        ("SELECT n, count(*), max(id), sum(k) FROM {t} WHERE n < 50 GROUP BY n ORDER BY n", "aggregates=["),
        ("SELECT avg(k) FROM {t} WHERE n = 2", "aggregates=["),
    ],
)
def test_aggregates_off_gives_the_same_rows(spark: SparkSession, uri: str, text: str, shown: str) -> None:
    on, off = both(spark, uri, "aggregates.enabled", text)
    spark.conf.set(f"{PREFIX}aggregates.enabled", "true")
    assert shown in plan(query(spark, uri, text))
    spark.conf.set(f"{PREFIX}aggregates.enabled", "false")
    assert shown not in plan(query(spark, uri, text))
    assert on.schema == off.schema


@pytest.mark.slow
def test_selectivity_off_gives_the_same_rows(spark: SparkSession, uri: str) -> None:
    spark.conf.set(BROADCAST, "100000")
    text = "SELECT count(*), sum(a.id) FROM {t} a JOIN {t} b ON a.id = b.id WHERE b.n < 2"
    asked = {}
    answers = {}
    for value in ("true", "false"):
        spark.conf.set(f"{PREFIX}selectivity.enabled", value)
        before = sent(spark)
        answers[value] = query(spark, uri, text).collect()
        asked[value] = (sent(spark) - before)["scan.selectivity"]
    assert answers["true"] == answers["false"]
    assert answers["true"][0][0] == ROWS // 50
    assert asked["true"] > 0
    assert asked["false"] == 0


@pytest.mark.parametrize("text", ["SELECT id, n FROM {t} WHERE n = 7", "SELECT count(*) FROM {t} WHERE n < 9"])
def test_inline_reads_off_gives_the_same_rows(spark: SparkSession, uri: str, text: str) -> None:
    def found(limit: str) -> list[tuple[object, ...]]:
        spark.conf.set(INLINE, limit)
        return sorted(tuple(row) for row in query(spark, uri, text).collect())

    assert found("0") == found("100000000")
    assert found("0")


@pytest.mark.parametrize("name", SWITCHES)
def test_setting_that_is_neither_true_nor_false(spark: SparkSession, uri: str, name: str) -> None:
    run: dict[str, Callable[[], object]] = {
        "topN.enabled": lambda: query(spark, uri, "SELECT id FROM {t} ORDER BY id LIMIT 2").collect(),
        "aggregates.enabled": lambda: query(spark, uri, "SELECT max(id) FROM {t}").collect(),
        "selectivity.enabled": lambda: query(spark, uri, "SELECT id FROM {t} WHERE n < 2").collect(),
    }
    spark.conf.set(PREFIX + name, "perhaps")
    with pytest.raises(AnalysisException, match=f"{PREFIX}{name} is 'perhaps'; set it to true or false"):
        run[name]()


def test_settings_are_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "settings.md").read_text()
    for name in (
        *SWITCHES,
        "inlineBytes",
        "planner.keepAlive",
        "useScalarIndex",
        "joinFilters.enabled",
        "mergeKeys.enabled",
        "coalesceTasks.enabled",
        "vectorSearch.approximate",
        "vectorSearch.inlineBytes",
        "textSearch.inlineBytes",
    ):
        assert f"`{PREFIX}{name}`" in page, name
