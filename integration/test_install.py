"""Every way to install the package ends with a connector that works: each in a virtual environment of its own.

The environments have Spark and the other dependencies as pip resolves them for the package, and nothing else. The first
of them is made by pip from the wheel; the others are copies of it from which the package was removed.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.environments import pip, run

TREE = Path(__file__).parents[1]
SPARK = "pyspark==4.3.0"

# Each environment takes a Spark, and some seconds of compiling, in a new JVM.
pytestmark = pytest.mark.timeout(1800)

SESSION = """
import sys
from pathlib import Path
import lance_spark
from pyspark.sql import SparkSession

assert not any("lance-spark-tree" in place for place in sys.path) or sys.argv[2] == "editable", sys.path
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
builder = builder.config("spark.sql.warehouse.dir", sys.argv[1] + "/warehouse")
spark = lance_spark.configure(builder, root=sys.argv[1] + "/tables").getOrCreate()
spark.sql("CREATE NAMESPACE lance.db")
spark.sql("CREATE TABLE lance.db.t (id BIGINT, name STRING) USING lance")
spark.sql("INSERT INTO lance.db.t VALUES (1, 'one'), (2, 'two')")
rows = spark.sql("SELECT id, name FROM lance.db.t ORDER BY id").collect()
assert [tuple(row) for row in rows] == [(1, "one"), (2, "two")], rows
spark.sql("OPTIMIZE lance.db.t")
print("jar", builder._options["spark.driver.extraClassPath"])
print("package", lance_spark.__file__)
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's files as a new clone has them, committed: without the jar and other files that git ignores."""
    folder = tmp_path_factory.mktemp("source") / "lance-spark-tree"
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", cwd=TREE)
    for name in filter(None, listed.split("\0")):
        if (TREE / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(TREE / name, folder / name)
    author = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"]
    for command in (["init", "--quiet"], ["add", "--all", "--force"], [*author, "commit", "--quiet", "-m", "all"]):
        run("git", *command, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel_environment(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that pip filled from the wheel alone; the wheel was built by pip from the source tree."""
    folder = tmp_path_factory.mktemp("wheel")
    environment = folder / "environment"
    run(sys.executable, "-m", "venv", environment, cwd=folder)
    pip(environment, "wheel", "--no-deps", "--wheel-dir", folder / "dist", tree, cwd=folder)
    (wheel,) = (folder / "dist").iterdir()
    pip(environment, "install", SPARK, f"{wheel}[spark]", cwd=folder)
    return environment


@pytest.fixture(scope="module")
def new_environment(wheel_environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Makes environments with the dependencies, and without the package."""

    def make() -> Path:
        environment = tmp_path_factory.mktemp("copy") / "environment"
        # Links instead of copies: each has half a gigabyte.
        shutil.copytree(wheel_environment, environment, symlinks=True, copy_function=os.link)
        pip(environment, "uninstall", "--yes", "lance-spark", cwd=environment.parent)
        return environment

    return make


def check(environment: Path, folder: Path, way: str) -> dict[str, str]:
    """Where jar and package were when statements ran in `environment`, for a user with an empty home."""
    home = folder / "home"
    home.mkdir()
    python = str(environment / "bin" / "python")
    pip(environment, "check", cwd=folder)
    own = {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}
    own |= {"PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
    output = run(python, "-c", SESSION, folder, way, cwd=folder, **own)
    return dict(line.split(maxsplit=1) for line in output.splitlines() if line.startswith(("jar ", "package ")))


def test_wheel(wheel_environment: Path, tmp_path: Path) -> None:
    answers = check(wheel_environment, tmp_path, "wheel")
    assert answers["package"].startswith(str(wheel_environment))
    assert answers["jar"].startswith(str(tmp_path / "home" / ".cache" / "lance-spark"))


def test_sdist(tree: Path, new_environment: Callable[[], Path], tmp_path: Path) -> None:
    environment = new_environment()
    pip(environment, "install", "hatchling", cwd=tmp_path)
    # Here the build sees a Spark and a JDK: the sdist takes the jar along, and what pip installs from it has it.
    run(environment / "bin" / "python", "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path / "dist", cwd=tree)
    (sdist,) = (tmp_path / "dist").iterdir()
    pip(environment, "install", f"{sdist}[spark]", cwd=tmp_path)
    answers = check(environment, tmp_path, "sdist")
    assert answers["jar"].startswith(str(environment))


def test_source_tree(tree: Path, new_environment: Callable[[], Path], tmp_path: Path) -> None:
    environment = new_environment()
    pip(environment, "install", f"{tree}[spark]", cwd=tmp_path)
    answers = check(environment, tmp_path, "tree")
    assert answers["package"].startswith(str(environment))
    assert answers["jar"].startswith(str(tmp_path / "home" / ".cache" / "lance-spark"))


def test_editable(tree: Path, new_environment: Callable[[], Path], tmp_path: Path) -> None:
    environment = new_environment()
    pip(environment, "install", "--editable", f"{tree}[spark]", cwd=tmp_path)
    assert check(environment, tmp_path, "editable")["package"].startswith(str(tree))


def test_git_url_of_a_local_clone(tree: Path, new_environment: Callable[[], Path], tmp_path: Path) -> None:
    run("git", "clone", "--quiet", tree, tmp_path / "clone", cwd=tmp_path)
    environment = new_environment()
    pip(environment, "install", f"git+file://{tmp_path / 'clone'}", cwd=tmp_path)
    assert check(environment, tmp_path, "git")["package"].startswith(str(environment))
