"""A planner worker that is killed: requests that it has not begun, and reads, go on with another one.

Of a write that it has begun the outcome is unknown.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.connector.script_session import printed

pytestmark = pytest.mark.slow

KILLS = """
import os, signal, threading, time
from pyspark import TaskContext

channel = spark._jvm.io.lancespark.python.PythonChannel
jvm = spark._jvm.java.lang.ProcessHandle.current().pid()

def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])

def planners():
    # Workers that the daemon of this JVM has forked.
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            is_planner = b"pyspark_lance.planner" in path.read_bytes()
            if is_planner and parent(parent(path.parent.name)) == jvm:
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found

def killed_during(op, run):
    # What `run` returns or raises although each planner worker is killed while it has the first request `op`.
    before = dict(channel.requests()).get(op, 0)
    stopped, results = planners(), []
    assert stopped
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    def keep():
        try:
            results.append(run())
        except Exception as error:
            results.append(error)
    thread = threading.Thread(target=keep)
    thread.start()
    while dict(channel.requests()).get(op, 0) == before:
        assert thread.is_alive(), results
        time.sleep(0.01)
    time.sleep(0.5)  # The request is counted before it is sent.
    for pid in stopped:
        os.kill(pid, signal.SIGKILL)
    thread.join()
    return results[0]

spark.sql("CREATE TABLE lance.t AS SELECT id FROM range(100)")
read = lambda: sorted(row.id for row in spark.sql("SELECT id FROM lance.t WHERE id < 10").collect())
assert killed_during("table.load", read) == list(range(10))

go = Path(root, "go")
def wait(batches):
    while not go.exists():
        time.sleep(0.05)
    yield from batches
rows = spark.range(100, 200, 1, 1).mapInArrow(wait, "id bigint")
"""

COMMIT = """
results = []
def append():
    try:
        rows.writeTo("lance.t").append()
    except Exception as error:
        results.append(error)
thread = threading.Thread(target=append)
thread.start()
while not dict(channel.requests()).get("write.plan", 0):
    time.sleep(0.05)
time.sleep(1)
def finish():
    go.touch()
    thread.join()
    return results
assert killed_during("write.commit", finish) == []
assert spark.table("lance.t").count() == spark.table("lance.t").distinct().count() == 200
"""

BEGUN_WRITE = """
import json, socket
silent = socket.create_server(("127.0.0.1", 0))
settings = {
    "root": "s3://bucket/root",
    "storage.aws_endpoint": f"http://127.0.0.1:{silent.getsockname()[1]}",
    "storage.aws_access_key_id": "a",
    "storage.aws_secret_access_key": "b",
    "storage.aws_region": "us-east-1",
}
body = {"catalog": {"name": "silent", "settings": settings}, "namespace": ["db"], "properties": {}}
request = spark._jvm.com.fasterxml.jackson.databind.ObjectMapper().readTree(json.dumps(body))
results = []
def create():
    results.append(attempt(lambda: channel.call("catalog.create_namespace", request)))
thread = threading.Thread(target=create)
thread.start()
connection, _ = silent.accept()  # The request waits for the answer of the store.
for pid in planners():
    os.kill(pid, signal.SIGKILL)
thread.join()
assert "LANCE_COMMIT_STATE_UNKNOWN" in results[0], results
assert "ended during catalog.create_namespace" in results[0], results
"""


@pytest.mark.slow
def test_planner_is_killed_during_requests(jar: Path, tmp_path: Path) -> None:
    printed(jar, tmp_path, KILLS + COMMIT + BEGUN_WRITE)
