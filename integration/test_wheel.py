"""One wheel works with each minor version of Spark, and a jar of another minor ends in one sentence.

Run by ``make wheel``, for the wheel that it has made. Each minor gets a Python of its own, the oldest the oldest.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.environments import pip, run
from integration.interpreters import interpreters
from integration.sparks import RELEASES
from integration.wheel import files_in, wheel
from lance_spark.spark.jvm import build

PROGRAM = Path(__file__).with_name("first_minutes.py")

# Clean environments, each with a Spark.
pytestmark = pytest.mark.timeout(3600)

JAR = "from lance_spark.spark.jvm.jar import jar_path; print(jar_path())"

# The class path that a site has set comes first: its old jar takes the place of the one that `configure` adds.
OLD_JAR = """
import sys
import lance_spark
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.driver.extraClassPath", sys.argv[1])
try:
    lance_spark.configure(builder, root=sys.argv[2]).getOrCreate()
except Exception as error:
    print(next(line for line in str(error).splitlines() if "UnsupportedOperationException" in line))
"""

OLD_JAR_OF_A_CATALOG = """
import sys
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.driver.extraClassPath", sys.argv[1])
builder = builder.config("spark.sql.catalog.lance", "io.lancespark.LanceCatalog")
spark = builder.config("spark.sql.catalog.lance.root", sys.argv[2]).getOrCreate()
try:
    spark.sql("SHOW TABLES IN lance")
except Exception as error:
    print(str(error).splitlines()[0])
"""

FIRST_ROWS = """
import sys
import lance_spark
import pyarrow as pa

lance_spark.write(pa.table({"a": [1, 2, 3], "s": ["a", "b", "c"]}), f"{sys.argv[1]}/t.lance")
print(lance_spark.open(f"{sys.argv[1]}/t.lance").to_table(filter="a = 2").to_pylist(), "numba" in sys.modules)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = os.environ.get("LANCE_WHEELS")
    return next(Path(folder).glob("*.whl")) if folder else wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module", params=build.MINORS)
def minor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def environment(minor: str, built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What a user of a minor has: the wheel with its dependencies, and that Spark."""
    folder = tmp_path_factory.mktemp("user")
    pythons = interpreters()
    place = build.MINORS.index(minor) * (len(pythons) - 1) // (len(build.MINORS) - 1)
    run(pythons[place].path, "-m", "venv", folder / "environment", cwd=folder)
    release = RELEASES.get(f"{minor}-last", f"{minor}.*")
    pip(folder / "environment", "install", f"{built}[spark]", f"pyspark=={release}", cwd=folder)
    pip(folder / "environment", "check", cwd=folder)
    yield folder / "environment"
    shutil.rmtree(folder)


def test_all_minors_have_a_jar(built: Path) -> None:
    assert sorted(files_in(built, ".jar")) == [build.jar_of(minor).name for minor in build.MINORS]


def test_first_rows_without_compiling(environment: Path, tmp_path: Path) -> None:
    printed = run(environment / "bin" / "python", "-c", FIRST_ROWS, tmp_path, cwd=tmp_path, HOME=str(tmp_path))
    # The wheel has object files for x86-64.
    assert printed.strip() == f"[{{'a': 2, 's': 'b'}}] {platform.machine() != 'x86_64'}"


@pytest.mark.parametrize("part", ["connector", "plugin"])
def test_first_minutes(environment: Path, minor: str, part: str, tmp_path: Path) -> None:
    python = environment / "bin" / "python"
    own = {"HOME": str(tmp_path), "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
    print(minor, part, "works with", run(python, PROGRAM, part, tmp_path, cwd=tmp_path, **own))  # noqa: T201
    # The wheel's jar was taken; none was compiled.
    assert run(python, "-c", JAR, cwd=tmp_path, **own).startswith(str(environment))
    assert not (tmp_path / ".cache" / "lance-spark").exists()


@pytest.mark.parametrize("program", [OLD_JAR, OLD_JAR_OF_A_CATALOG], ids=["configured", "catalog alone"])
def test_jar_of_another_minor(environment: Path, minor: str, built: Path, tmp_path: Path, program: str) -> None:
    for other in {build.MINORS[0], build.MINORS[-1]} - {minor}:
        old = tmp_path / f"{other}.jar"
        old.write_bytes(files_in(built, ".jar")[build.jar_of(other).name])
        own = {"HOME": str(tmp_path), "SPARK_LOCAL_IP": "127.0.0.1"}
        printed = run(environment / "bin" / "python", "-c", program, old, tmp_path, cwd=tmp_path, **own)
        assert f"this jar of the Lance connector is for Spark {other}, this is Spark {minor}." in printed
        assert f"put lance-spark-{minor}.jar on the class path in its place" in printed
