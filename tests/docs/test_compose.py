"""docker-compose.yml: its names belong together, and Spark's settings in it are known. Nothing is started."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from lance_spark.spark import session
from lance_spark.spark.jvm import build
from lance_spark.spark.options.catalog import CatalogOptions
from lance_spark.spark.session import CATALOG_CLASS, LOCAL_SOCKETS

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


def settings_of(text: str) -> dict[str, str]:
    return dict(line.split() for line in text.splitlines())


def test_settings_are_those_of_the_connectors_page(compose: dict[str, Any]) -> None:
    """Every setting that the page of the connector lists, with its value, but for those that say where things are."""
    blocks = re.findall(
        r"```ini\n(.*?)```", (FILE.parent / "docs/reference/plug-in-and-connector.md").read_text(), re.DOTALL
    )
    listed = [settings_of(block) for block in blocks if "spark.driver.extraClassPath" in block]
    assert len(listed) == 1
    settings = settings_of(compose["configs"]["spark-defaults"]["content"])
    places = {
        "spark.driver.extraClassPath",
        "spark.sql.catalog.lance.root",
        "spark.sql.catalog.lance.storage.aws_region",
    }
    assert listed[0].keys() >= places | {"spark.sql.extensions", LOCAL_SOCKETS}
    for name, value in listed[0].items():
        assert name in settings, f"the page lists {name}, docker-compose.yml does not"
        assert name in places or settings[name] == value
    assert Path(settings["spark.driver.extraClassPath"]).parts[-4:] == build.jar_of("4.3").parts[-4:]


def test_settings_are_those_of_configure(compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A session of the notebook runs the same statements as one that `configure` has set up."""
    monkeypatch.setattr(session, "jar_path", lambda version: "/lance-spark.jar")
    monkeypatch.setattr(session, "running_jvm", lambda: None)
    made = session.configure(SparkSession.Builder(), root="s3://tables/lance")._options
    settings = settings_of(compose["configs"]["spark-defaults"]["content"])
    for name in ("spark.sql.extensions", LOCAL_SOCKETS, "spark.sql.catalog.lance", "spark.sql.catalog.lance.root"):
        assert settings[name] == made[name]


def test_every_spark_has_the_settings(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for name in ("notebook", "master"):
        assert "spark-defaults" in {use["source"] for use in services[name]["configs"]}


def test_the_image_is_built_with_the_jar(compose: dict[str, Any]) -> None:
    """The image has Spark before the package is installed, and its build fails if the jar is not at its place."""
    (recipe,) = {s["build"]["dockerfile_inline"] for s in compose["services"].values() if "build" in s}
    jar = settings_of(compose["configs"]["spark-defaults"]["content"])["spark.driver.extraClassPath"]
    assert recipe.index("openjdk-17-jdk") < recipe.index("pyspark[connect]") < recipe.index("--no-build-isolation")
    assert f"test -f {jar}" in recipe


def test_the_script_that_makes_the_bucket_is_python(compose: dict[str, Any]) -> None:
    ast.parse(compose["services"]["bucket"]["command"][-1])
