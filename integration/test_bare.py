"""The package works where nothing else is: its wheel, with the lowest and the highest versions of its dependencies.

An environment has what pip brings for the wheel and for the extra ``spark``: no tools for tests, no pandas. Run by
``make bare``, which prints what each environment had, and which Pythons this machine lacks.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from integration.environments import pip, run
from integration.interpreters import Interpreter, interpreters, own
from integration.lowest import lowest, project_table

TREE = Path(__file__).parents[1]
PROGRAM = Path(__file__).with_name("first_minutes.py")

PARTS = ("engine", "connector", "plugin")
"""The parts of `first_minutes`."""

# Downloads, compiled kernels and Sparks.
pytestmark = pytest.mark.timeout(1800)


@dataclass(frozen=True)
class Bare:
    """An environment.

    Attributes:
        is_lowest: whether it has the lowest versions that the package allows, of Spark too, or else the highest.
        pythons: what it may be made with, the first first; others where pip has no wheels for it.
    """

    is_lowest: bool
    pythons: Sequence[Interpreter]

    def __str__(self) -> str:
        return f"{'lowest' if self.is_lowest else 'highest'}-python{self.pythons[0].minor}"


def planned() -> Iterator[Bare]:
    """The lowest versions with the oldest Python that the package allows, the highest with the newest that is here.

    Where the oldest is not here, the project's own Python takes its place.
    """
    here = interpreters()
    yield Bare(True, [next((python for python in here if python.minor == oldest_minor()), own())])
    yield Bare(False, [*reversed(here)])


def oldest_minor() -> str:
    return str(project_table()["requires-python"]).removeprefix(">=")


def test_python_that_the_package_allows_is_here() -> None:
    versions = [python.minor for python in interpreters()]
    if oldest_minor() not in versions:
        pytest.skip(
            f"Python {oldest_minor()} is neither on the PATH nor under pyenv, only {', '.join(versions)}: the lowest "
            f"versions were tried with Python {own().minor} alone"
        )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, with the jar that `make` has compiled."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=TREE)
    (built,) = folder.iterdir()
    return built


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    # An environment with Spark has a gigabyte.
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("bare", list(planned()), ids=str)
def test_first_minutes_in_a_bare_environment(bare: Bare, wheel: Path, folder: Path) -> None:
    environment = made(bare, wheel, folder)
    python = environment / "bin" / "python"
    for part in PARTS:
        data = folder / part
        data.mkdir()
        settings = {"HOME": str(folder), "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
        print(part, "works with", run(python, PROGRAM, part, data, cwd=data, **settings))  # noqa: T201


def made(bare: Bare, wheel: Path, folder: Path) -> Path:
    """An environment with the wheel; with the first Python for which pip finds wheels of all dependencies."""
    for number, python in enumerate(bare.pythons):
        environment = folder / f"environment-{number}"
        run(python.path, "-m", "venv", environment, cwd=folder)
        versions = lowest([], python=python.minor) if bare.is_lowest else []
        try:
            pip(environment, "install", *wheels_only(), *versions, wheel, cwd=folder)
        except AssertionError as error:
            if python == bare.pythons[-1] or "No matching distribution" not in str(error):
                raise
            print(f"Python {python.minor} cannot be tried, there are no wheels for it: {error}")  # noqa: T201
            continue
        pip(environment, "install", spark_of(bare), cwd=folder)
        pip(environment, "check", cwd=folder)
        return environment
    raise AssertionError("no Python")


def wheels_only() -> list[str]:
    """Options of pip: what has no wheel is missing, instead of compiled for minutes. Spark has none."""
    names = {Requirement(text).name for text in project_table()["dependencies"]}
    return ["--only-binary", ",".join(sorted({*names, "llvmlite"}))]


def spark_of(bare: Bare) -> str:
    """The lowest Spark that the package allows, or the one that the project is developed with."""
    (pin,) = (pin for pin in lowest(["spark" if bare.is_lowest else "example"]) if pin.startswith("pyspark=="))
    return pin
