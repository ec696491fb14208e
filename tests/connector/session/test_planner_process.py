"""The planner worker: it starts with the session, and is kept ready as long as the setting says."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.support.connector.script_session import printed

KEEP_ALIVE = "spark.sql.lance.planner.keepAlive"

PROCESSES = """
import time
jvm = spark._jvm.io.lancespark.python

def planners():
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            parent = (path.parent / "stat").read_text().rsplit(")", 1)[1].split()[1]
            started_by_us = parent == str(spark._jvm.java.lang.ProcessHandle.current().pid())
            found += started_by_us and b"pyspark_lance.planner" in path.read_bytes()
        except OSError:
            continue
    return found

def wait_until(condition):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen")
"""

STARTED_WITH_SESSION = (
    PROCESSES
    + """
wait_until(planners)
assert jvm.LancePlanner.isKeptReady()
assert not jvm.PythonChannel.requests()
spark.sql("CREATE TABLE lance.t (id BIGINT)")
assert "planner.ready" not in dict(jvm.PythonChannel.requests())
assert planners() == 1
"""
)

STARTED_BY_REQUEST = (
    PROCESSES
    + """
wait_until(lambda: not jvm.LancePlanner.isKeptReady())
assert not planners()
spark.sql("CREATE TABLE lance.t (id BIGINT)")
assert planners() == 1 and not jvm.LancePlanner.isKeptReady()
"""
)


@pytest.mark.slow
def test_planner_starts_with_the_session(jar: Path, tmp_path: Path) -> None:
    printed(jar, tmp_path, STARTED_WITH_SESSION)


@pytest.mark.slow
def test_planner_starts_with_the_first_request_without_keep_alive(jar: Path, tmp_path: Path) -> None:
    printed(jar, tmp_path, STARTED_BY_REQUEST, f"{KEEP_ALIVE}=0")


def test_keep_alive_is_a_time(spark: SparkSession, tmp_path: Path) -> None:
    planner = spark._jvm.io.lancespark.python.LancePlanner
    spark.range(3).write.format("lance").save(str(tmp_path / "t"))
    try:
        spark.conf.set(KEEP_ALIVE, "0")
        assert spark.read.format("lance").load(str(tmp_path / "t")).count() == 3
        assert not planner.isKeptReady()
        spark.conf.set(KEEP_ALIVE, "2h")
        assert spark.read.format("lance").load(str(tmp_path / "t")).count() == 3
        assert planner.isKeptReady()
        spark.conf.set(KEEP_ALIVE, "often")
        with pytest.raises(PySparkException, match=f"{KEEP_ALIVE} is 'often'; set it to a time such as 30min, or to 0"):
            spark.read.format("lance").load(str(tmp_path / "t"))
    finally:
        spark.conf.unset(KEEP_ALIVE)
