"""Spark's own servers, as processes on loopback addresses: a standalone cluster, a Connect and a JDBC server.

All of it comes with the pip package of Spark.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from tests.support.moto import free_port

SPARK_HOME = Path(pyspark.__file__).parent
WORKER_HOSTS = ("127.0.0.2", "127.0.0.3")
_TREE = Path(__file__).parents[1]
ENVIRONMENT = {
    **os.environ,
    "SPARK_HOME": str(SPARK_HOME),
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_DRIVER_PYTHON": sys.executable,
    "PYTHONPATH": str(_TREE),
}
_START_SECONDS = 300.0
_DRIVER_SECONDS = 1200.0


def environment_of(release: Path | None) -> dict[str, str]:
    """The environment of programs of a release of PySpark (`integration.sparks`); that of this environment if None."""
    if release is None:
        return ENVIRONMENT
    home = {"SPARK_HOME": str(release / "pyspark"), "PYTHONPATH": f"{release}{os.pathsep}{_TREE}"}
    return {**ENVIRONMENT, **home}


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """URL of a master with two workers of one core each, which Spark takes for two hosts.

    Speculative attempts only ever start on another host than the first one.
    """
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    with ExitStack() as stack:
        master = [f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        log = stack.enter_context(_server(folder, "master", ["spark-class", *master]))
        _wait_for(log, "I have been elected leader")
        logs = []
        for host in WORKER_HOSTS:
            worker = [f"{deploy}.worker.Worker", "--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            command = ["spark-class", *worker, "--work-dir", str(folder / f"work-{host}"), url]
            logs.append(stack.enter_context(_server(folder, f"worker-{host}", command, SPARK_LOCAL_IP=host)))
        for log in logs:
            _wait_for(log, "Successfully registered with master")
        yield url


@contextmanager
def connect_server(folder: Path, settings: Mapping[str, str], release: Path | None = None) -> Iterator[str]:
    """URL of a Connect server that runs its tasks itself, started with `settings`; release as `environment_of`."""
    port = free_port()
    own = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port)}
    command = _submit("org.apache.spark.sql.connect.service.SparkConnectServer", folder, {**own, **settings})
    with _server(folder, "connect", command, release, SPARK_LOCAL_IP="127.0.0.1") as log:
        _wait_for(log, f":{port}", port)
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def thrift_server(folder: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """URL of a JDBC server that runs its tasks itself, started with `settings`; a database comes behind it."""
    port = free_port()
    command = _submit("org.apache.spark.sql.hive.thriftserver.HiveThriftServer2", folder, settings)
    for name, value in {"port": str(port), "bind.host": "127.0.0.1"}.items():
        command += ["--hiveconf", f"hive.server2.thrift.{name}={value}"]
    with _server(folder, "thrift", command, SPARK_LOCAL_IP="127.0.0.1") as log:
        _wait_for(log, "HiveThriftServer2 started", port)
        yield f"jdbc:hive2://127.0.0.1:{port}/"


def beeline(url: str, *statements: str) -> list[str]:
    """The rows of the statements, values separated by commas, from a client of its own.

    Raises:
        AssertionError: a statement failed.
    """
    command = [str(SPARK_HOME / "bin" / "beeline"), "--silent=true", "--showHeader=false", "--outputformat=csv2"]
    command += ["-u", url, *(part for statement in statements for part in ("-e", statement))]
    result = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=600, check=False)
    assert result.returncode == 0, result.stderr[-4000:]
    assert "Error:" not in result.stderr, result.stderr[-4000:]
    return re.sub(r"\d+: jdbc:\S+> ?", "", result.stdout).split()


def _submit(main_class: str, folder: Path, settings: Mapping[str, str]) -> list[str]:
    own = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    options = [part for name, value in {**own, **settings}.items() for part in ("--conf", f"{name}={value}")]
    return ["spark-submit", "--class", main_class, "--master", "local[2]", *options, "spark-internal"]


@contextmanager
def _server(
    folder: Path, name: str, command: list[str], release: Path | None = None, **settings: str
) -> Iterator[Path]:
    """Runs one of Spark's programs, in a process group of its own; its log."""
    log = folder / f"{name}.log"
    environment = {**environment_of(release), **settings}
    with log.open("ab") as out:
        process = subprocess.Popen(
            [str(Path(environment["SPARK_HOME"]) / "bin" / command[0]), *command[1:]],
            stdout=out,
            stderr=out,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
    try:
        yield log
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(30)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def _wait_for(log: Path, words: str, port: int | None = None) -> None:
    """Until the log says `words`, or something listens on `port`."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if words in log.read_text(errors="replace") or (port is not None and _listens(port)):
            return
        time.sleep(0.3)
    end = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
    raise RuntimeError(f"{log.stem} did not get ready: {end}")


def _listens(port: int) -> bool:
    with socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex(("127.0.0.1", port)) == 0


def run_driver(script: str, *arguments: str, folder: Path, release: Path | None = None) -> str:
    """What a driver program prints; a Python process holds one Spark, so each runs in its own.

    Args:
        release: as `environment_of`.

    Raises:
        AssertionError: it failed.
    """
    process = start_driver(script, *arguments, folder=folder, release=release)
    return finish_driver(process)


def start_driver(script: str, *arguments: str, folder: Path, release: Path | None = None) -> subprocess.Popen[str]:
    """A driver program that runs; arguments as `run_driver`."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**environment_of(release), "SPARK_LOCAL_IP": "127.0.0.1"},
    )


def finish_driver(process: subprocess.Popen[str]) -> str:
    """What a driver program has printed when it ends.

    Raises:
        AssertionError: it failed.
    """
    try:
        printed, errors = process.communicate(timeout=_DRIVER_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0, errors[-6000:]
    return printed
