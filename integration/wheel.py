"""Builds the wheel and the sdist: ``python -m integration.wheel FOLDER``.

Both have a jar for each minor version of Spark, and the object files of all kernels.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

from integration.environments import run
from integration.sparks import RELEASES, pyspark
from lance_spark.kernels.machine_code import packaged
from lance_spark.spark.jvm import build

TREE = Path(__file__).parents[1]


def wheel(folder: Path) -> Path:
    """The wheel, beside its sdist in `folder`, which must have neither.

    Raises:
        JarBuildError: no JDK, or the project's environment has another Spark than the newest.
        AssertionError: the wheel lacks a jar or an object file.
    """
    newest = build.MINORS[-1]
    for minor in build.MINORS:
        jars = build.spark_jars() if minor == newest else pyspark(RELEASES[f"{minor}-last"]) / "pyspark" / "jars"
        jar = build.package_jar(jars)
        assert jar == build.jar_of(minor), f"{jars} is not of Spark {minor}"
    run(sys.executable, "-m", "lance_spark.kernels.warm", cwd=TREE)
    folder.mkdir(parents=True, exist_ok=True)
    run(sys.executable, "-m", "hatchling", "build", "-d", folder.resolve(), cwd=TREE)
    (built,) = folder.glob("*.whl")
    assert files_in(built, ".jar") == {
        build.jar_of(minor).name: build.jar_of(minor).read_bytes() for minor in build.MINORS
    }
    assert files_in(built, ".o") == {file.name: file.read_bytes() for file in packaged().iterdir()}
    return built


def files_in(wheel: Path, ending: str) -> dict[str, bytes]:
    """Files of a wheel whose names end so, by the name of the file."""
    with zipfile.ZipFile(wheel) as archive:
        return {Path(name).name: archive.read(name) for name in archive.namelist() if name.endswith(ending)}


if __name__ == "__main__":
    print(wheel(Path(sys.argv[1])))  # noqa: T201
