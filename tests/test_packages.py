"""What the built wheel and sdist contain. That they install and work is for `integration/test_install.py`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from lance_spark.spark.jvm import build

TREE = Path(__file__).parents[1]
JVM = "lance_spark/spark/jvm"
JARS = [f"{JVM}/{build.jar_of(minor).name}" for minor in build.MINORS]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the project that a build sees, without a jar."""
    folder = tmp_path_factory.mktemp("tree")
    for name in ("lance_spark", "pyspark_lance", "proto", "docs"):
        ignored = shutil.ignore_patterns("__pycache__", "*.jar")
        shutil.copytree(TREE / name, folder / name, ignore=ignored)
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore"):
        shutil.copy(TREE / name, folder / name)
    return folder


def built(tree: Path, target: str, folder: Path, **environment: str) -> dict[str, bytes]:
    """The files of a wheel or an sdist that is built from `tree`, by name without the sdist's folder."""
    pytest.importorskip("hatchling", reason="hatchling, with which packages are built, is not installed")
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=tree, env={**os.environ, **environment}, check=True, capture_output=True)
    (package,) = folder.iterdir()
    if target == "wheel":
        with zipfile.ZipFile(package) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    with tarfile.open(package) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
        return {member.name.partition("/")[2]: archive.extractfile(member).read() for member in members}  # type: ignore[union-attr]


def package_files() -> set[str]:
    """All files of both packages: Python, stubs, Java sources, service files and markers."""
    found = (path for name in ("lance_spark", "pyspark_lance") for path in (TREE / name).rglob("*"))
    return {
        path.relative_to(TREE).as_posix()
        for path in found
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".jar", ".tmp")
    }


@pytest.mark.slow
@pytest.mark.parametrize("target", ["wheel", "sdist"])
def test_package_has_all_files_and_java_sources(tree: Path, tmp_path: Path, target: str) -> None:
    no_compiler = {"JAVA_HOME": "", "PATH": str(tmp_path)}
    files = built(tree, target, tmp_path / "dist", **no_compiler)
    assert package_files() <= set(files)
    assert {"lance_spark/py.typed", "pyspark_lance/__init__.py"} <= set(files)
    assert f"{JVM}/io/lancespark/LanceCatalog.java" in files
    assert any(name.endswith("LICENSE") for name in files)
    assert not set(JARS) & set(files)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["wheel", "sdist"])
def test_package_has_the_jar_where_it_can_be_compiled(tree: Path, tmp_path: Path, target: str) -> None:
    if shutil.which("javac") is None:
        pytest.skip("no JDK: javac is not on the PATH")
    files = built(tree, target, tmp_path / "dist")
    minor = build.minor_of(build.spark_version(build.spark_jars()))
    name = f"{JVM}/{build.jar_of(minor).name}"
    assert set(JARS) & set(files) == {name}
    (tmp_path / "of.jar").write_bytes(files[name])
    assert build.is_current(minor, tmp_path / "of.jar")
    with zipfile.ZipFile(tmp_path / "of.jar") as archive:
        assert "io/lancespark/LanceCatalog.class" in archive.namelist()
    assert not (tree / name).exists(), "the tree is not changed by a build"


def test_package_has_the_jars_of_the_tree_that_are_current(tree: Path, tmp_path: Path) -> None:
    no_compiler = {"JAVA_HOME": "", "PATH": str(tmp_path)}
    stale, current = JARS[0], JARS[1]
    try:
        (tree / stale).write_bytes(b"made of other sources")
        with zipfile.ZipFile(tree / current, "w") as archive:
            archive.writestr("META-INF/MANIFEST.MF", build._manifest(build.MINORS[1]))
        files = built(tree, "wheel", tmp_path / "dist", **no_compiler)
        assert set(JARS) & set(files) == {current}
        assert files[current] == (tree / current).read_bytes()
        assert (tree / stale).exists(), "whoever has the tree installed as editable keeps the jars that are there"
    finally:
        (tree / stale).unlink(missing_ok=True)
        (tree / current).unlink(missing_ok=True)
