"""docker-compose.yml: its names belong together, and Spark's settings in it are known. Nothing is started."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from lance_spark.spark.options import CatalogOptions
from lance_spark.spark.session import CATALOG_CLASS

FILE = Path(__file__).parents[2] / "docker-compose.yml"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return dict(yaml.safe_load(FILE.read_text()))


def test_names_belong_together(compose: dict[str, Any]) -> None:
    services = compose["services"]
    built = {service["image"] for service in services.values() if "build" in service}
    for name, service in services.items():
        assert set(service.get("depends_on", ())) <= set(services), name
        assert {use["source"] for use in service.get("configs", ())} <= set(compose["configs"]), name
        assert service["image"] in built or ":" in service["image"], name


def test_settings_are_known(compose: dict[str, Any]) -> None:
    lines = compose["configs"]["spark-defaults"]["content"].splitlines()
    settings = dict(line.split() for line in lines)
    assert settings["spark.sql.catalog.lance"] == CATALOG_CLASS
    prefix = "spark.sql.catalog.lance."
    catalog = {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}
    assert CatalogOptions.parse(catalog).root == "s3://tables/lance"
    (identity,) = json.loads(compose["configs"]["s3"]["content"])["identities"]
    assert identity["credentials"][0]["accessKey"] == catalog["storage.aws_access_key_id"]


def test_the_script_that_makes_the_bucket_is_python(compose: dict[str, Any]) -> None:
    ast.parse(compose["services"]["bucket"]["command"][-1])
