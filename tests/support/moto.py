"""An S3 server for tests, as a subprocess on the loopback address.

A test folder gets it by importing the fixture into its ``conftest.py``::

    from tests.support.moto import s3_bucket  # noqa: F401
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

MANIFEST_TABLE = "lance-manifests"
_START_SECONDS = 60.0


@dataclass(frozen=True)
class S3Bucket:
    """A bucket of a test server. `storage_options` are what a user would give."""

    uri: str
    name: str
    endpoint: str
    storage_options: dict[str, str]

    def client(self) -> Any:
        """A boto3 client, to look at what is really there."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.storage_options["aws_access_key_id"],
            aws_secret_access_key=self.storage_options["aws_secret_access_key"],
            region_name=self.storage_options["aws_region"],
        )

    def dynamodb(self) -> Any:
        """A boto3 client of the same server's DynamoDB."""
        return boto3.client(
            "dynamodb",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.storage_options["aws_access_key_id"],
            aws_secret_access_key=self.storage_options["aws_secret_access_key"],
            region_name=self.storage_options["aws_region"],
        )

    def manifest_table(self) -> str:
        """Name of a DynamoDB table for manifests, with the keys that the format asks for; made when first asked for."""
        client = self.dynamodb()
        if MANIFEST_TABLE not in client.list_tables()["TableNames"]:
            client.create_table(
                TableName=MANIFEST_TABLE,
                KeySchema=[
                    {"AttributeName": "base_uri", "KeyType": "HASH"},
                    {"AttributeName": "version", "KeyType": "RANGE"},
                ],
                AttributeDefinitions=[
                    {"AttributeName": "base_uri", "AttributeType": "S"},
                    {"AttributeName": "version", "AttributeType": "N"},
                ],
                BillingMode="PAY_PER_REQUEST",
            )
        return MANIFEST_TABLE

    def folder(self) -> str:
        """The URI of a new folder, for one test."""
        return f"{self.uri}/{uuid.uuid4().hex}"


def free_port() -> int:
    """A port of the loopback address that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def moto_server() -> Iterator[S3Bucket]:
    """A running server with one empty bucket."""
    port = free_port()
    command = [sys.executable, "-m", "tests.support.atomic_moto", "-H", "127.0.0.1", "-p", str(port)]
    root = Path(__file__).parents[2]
    process = subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(process, port)
        bucket = bucket_at(f"http://127.0.0.1:{port}", "lance-tests")
        bucket.client().create_bucket(Bucket=bucket.name)
        yield bucket
    finally:
        process.terminate()
        process.wait(30)


def bucket_at(endpoint: str, name: str) -> S3Bucket:
    """A bucket of a server that takes any credentials."""
    options = {
        "aws_access_key_id": "testing",
        "aws_secret_access_key": "testing",
        "aws_region": "us-east-1",
        "aws_endpoint": endpoint,
        "allow_http": "true",
    }
    return S3Bucket(f"s3://{name}", name, endpoint, options)


@pytest.fixture(scope="session")
def s3_bucket() -> Iterator[S3Bucket]:
    """A bucket that all tests of the session share; use `S3Bucket.folder` to keep them apart."""
    with moto_server() as bucket:
        yield bucket


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"moto_server ended with status {process.returncode}")
        with socket.socket() as probe:
            probe.settimeout(1.0)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"moto_server did not listen within {_START_SECONDS} s")
