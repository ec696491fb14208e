from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from integration.components import Seaweedfs, azurite_program, seaweedfs
from lance_spark.spark.jvm import build
from tests.support.moto import S3Bucket, moto_server
from tests.support.object_servers import azurite, fake_gcs


@dataclass(frozen=True)
class Service:
    """An object store: where tables go, and the options with which both libraries get there.

    Attributes:
        reference_options: None where the reference library cannot talk to the emulator.
    """

    name: str
    root: str
    options: dict[str, str]
    reference_options: dict[str, str] | None = None


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweedfs]:
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@pytest.fixture(scope="session")
def seaweed_service(seaweed: Seaweedfs) -> Service:
    bucket = seaweed.bucket
    return Service("seaweedfs", bucket.uri, bucket.storage_options, bucket.storage_options)


@pytest.fixture(scope="session")
def moto() -> Iterator[S3Bucket]:
    """Its DynamoDB stands beside SeaweedFS, which has none."""
    with moto_server() as bucket:
        yield bucket


@pytest.fixture(scope="session")
def gcs_service() -> Iterator[Service]:
    with fake_gcs() as options:
        yield Service("gcs", "gs://lance-tests", options)


@pytest.fixture(scope="session")
def azure_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    os.environ.setdefault("AZURITE_BLOB", str(azurite_program()))
    with azurite(str(tmp_path_factory.mktemp("azurite"))) as options:
        # The reference library finds the emulator by the endpoint, and knows its account.
        reference = {**options, "allow_http": "true"}
        yield Service("azurite", "az://lance-tests", options, reference)


@pytest.fixture(scope="session", params=["seaweed", "gcs", "azure"])
def service(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(f"{request.param}_service")


@pytest.fixture(scope="session")
def jar() -> Path:
    """The connector's jar, compiled from the sources that are here; tests that need it are skipped without a JDK."""
    try:
        return build.package_jar()
    except build.JarBuildError as error:
        pytest.skip(str(error))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
