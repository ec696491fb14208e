"""A standalone cluster with a worker on each of two addresses: executors that die, and tasks that run twice."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import lance
import pytest

from integration.spark_servers import WORKER_HOSTS, run_driver, standalone_cluster
from lance_spark.table.cleanup.cleanup import remove_orphans
from lance_spark.table.location import TableLocation

# Several JVMs start in each; on a busy machine that takes minutes.
pytestmark = pytest.mark.timeout(1800)

SESSION = """
import os, signal, sys
from pathlib import Path
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
import lance_spark

way, master, folder = sys.argv[1:4]
uri = folder + "/table"
builder = (
    SparkSession.builder.master(master)
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.executor.memory", "700m")
    .config("spark.cores.max", "2")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.warehouse.dir", folder + "/warehouse")
    # Both executors are there before the first task starts.
    .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
    .config("spark.scheduler.maxRegisteredResourcesWaitingTime", "60s")
    .config("spark.speculation", sys.argv[4] if len(sys.argv) > 4 else "false")
    .config("spark.speculation.interval", "100ms")
    .config("spark.speculation.quantile", "0.5")
    .config("spark.speculation.multiplier", "1.1")
    .config("spark.speculation.minTaskRuntime", "1s")
)
if way == "connector":
    builder = lance_spark.configure(builder, root=folder + "/catalog")
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")

def save(frame):
    if way == "connector":
        frame.writeTo(f"lance.`{uri}`").append() if Path(uri).exists() else frame.write.format("lance").save(uri)
    else:
        frame.write.format("lance").mode("append").save(uri)

def harmed(how):
    def run(batches):
        task = TaskContext.get()
        if task.partitionId() == 1:
            how(task.attemptNumber())
        yield from batches
    return spark.range(0, 4000, 1, 4).mapInArrow(run, "id bigint")
"""

HOSTS = """
infos = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
save(spark.range(0, 4000, 1, 4))
assert spark.read.format("lance").load(uri).count() == 4000
print(" ".join(sorted({info.host() for info in infos})))
spark.stop()
"""

KILL = """
def kill_the_executor(attempt):
    if attempt == 0:
        daemon = os.getppid()
        executor = int(Path(f"/proc/{daemon}/stat").read_text().rsplit(")", 1)[1].split()[1])
        assert b"java" in Path(f"/proc/{executor}/cmdline").read_bytes()
        Path(folder, "killed").write_text(str(executor))
        os.kill(executor, signal.SIGKILL)
        signal.pause()

save(spark.range(0, 100, 1, 1))
save(harmed(kill_the_executor))
assert spark.read.format("lance").load(uri).count() == 4100
spark.stop()
"""

SPECULATE = """
os.mkfifo(folder + "/second-attempt")

def wait_for_the_second_attempt(attempt):
    Path(folder, f"attempt-{attempt}").touch()
    # Each end of a named pipe waits for the other one.
    open(folder + "/second-attempt", "rb" if attempt == 0 else "wb").close()

save(spark.range(0, 100, 1, 1))
save(harmed(wait_for_the_second_attempt))
assert spark.read.format("lance").load(uri).count() == 4100
spark.stop()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as url:
        yield url


@pytest.fixture(params=["connector", "plug-in"])
def way(request: pytest.FixtureRequest) -> str:
    """Into Spark."""
    if request.param == "connector":
        request.getfixturevalue("jar")
    return str(request.param)


def test_both_workers_take_part(cluster: str, way: str, tmp_path: Path) -> None:
    hosts = run_driver(SESSION + HOSTS, way, cluster, str(tmp_path), folder=tmp_path).split()
    assert set(WORKER_HOSTS) <= set(hosts)
    assert_rows(tmp_path, [*range(4000)], version=1)


def test_an_executor_is_killed_during_a_write(cluster: str, way: str, tmp_path: Path) -> None:
    run_driver(SESSION + KILL, way, cluster, str(tmp_path), folder=tmp_path)
    assert (tmp_path / "killed").exists()
    assert_rows(tmp_path, [*range(100), *range(4000)], version=2)


def test_a_slow_task_is_started_twice(cluster: str, way: str, tmp_path: Path) -> None:
    run_driver(SESSION + SPECULATE, way, cluster, str(tmp_path), "true", folder=tmp_path)
    assert sorted(path.name for path in tmp_path.glob("attempt-*")) == ["attempt-0", "attempt-1"]
    assert_rows(tmp_path, [*range(100), *range(4000)], version=2, may_leave=1)


def assert_rows(folder: Path, expected: list[int], version: int, *, may_leave: int = 0) -> None:
    """Every row once, each job one version, as the reference library sees the table.

    Args:
        may_leave: files that are not the table's, and that a clean-up removes.
    """
    uri = str(folder / "table")
    dataset = lance.dataset(uri)
    assert dataset.version == version
    assert sorted(dataset.to_table()["id"].to_pylist()) == sorted(expected)
    used = {file.path for fragment in dataset.get_fragments() for file in fragment.data_files()}
    assert used <= data_files(uri)
    assert len(data_files(uri) - used) <= may_leave
    remove_orphans(TableLocation(uri), timedelta(0))
    assert data_files(uri) == used
    assert sorted(lance.dataset(uri).to_table()["id"].to_pylist()) == sorted(expected)


def data_files(uri: str) -> set[str]:
    return {path.name for path in Path(uri, "data").iterdir()}
