"""A Hive metastore from the jars of the pip package of Spark, over Derby."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from integration.spark_servers import SPARK_HOME
from tests.support.moto import free_port

_START_SECONDS = 300.0
_SETTINGS = {
    "javax.jdo.option.ConnectionURL": "jdbc:derby:;databaseName={folder}/db;create=true",
    "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
    "datanucleus.schema.autoCreateAll": "true",
    "hive.metastore.schema.verification": "false",
    "hive.metastore.warehouse.dir": "{folder}/warehouse",
    # Spark's jars lack a library of each of the defaults.
    "hive.async.log.enabled": "false",
    "datanucleus.connectionPoolingType": "HikariCP",
}


@contextmanager
def hive_metastore(folder: Path) -> Iterator[int]:
    """The port of a metastore, whose databases are in ``folder/warehouse``."""
    conf = folder / "conf"
    conf.mkdir(parents=True)
    entries = "".join(
        f"<property><name>{name}</name><value>{value.format(folder=folder)}</value></property>"
        for name, value in _SETTINGS.items()
    )
    (conf / "hive-site.xml").write_text(f"<configuration>{entries}</configuration>")
    port = free_port()
    program = "org.apache.hadoop.hive.metastore.HiveMetaStore"
    command = ["java", "-Xmx512m", "-cp", f"{conf}:{SPARK_HOME}/jars/*", program, "-p", str(port)]
    log = folder / "metastore.log"
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
    try:
        _wait_for(process, port, log)
        yield port
    finally:
        process.terminate()
        process.wait(60)


def _wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.5)
    raise RuntimeError(f"no metastore: {log.read_text()[-2000:]}")
