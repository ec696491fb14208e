"""Builds the connector's jar: ``python -m lance_spark.spark.jvm.build``, which is what `make jar` runs.

The sources are compiled by plain `javac` against the jars that pyspark carries. The same sources give the same bytes:
entries are sorted and have a fixed time.

This file imports nothing of the package, so that a wheel can be built where the package is not installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
JAR = HERE / "lance-spark.jar"
JAVA_RELEASE = 17
SPARK = "4.3"
"""The one minor version of Spark that the connector is for; the plug-in asks for less."""

_SERVICES = "META-INF/services"
_EPOCH = (1980, 1, 1, 0, 0, 0)


class JarBuildError(Exception):
    """The jar cannot be built here; the message says what is missing."""


class CompileError(Exception):
    """The sources are wrong; unlike a missing compiler, nothing goes on without the jar then."""


def sources() -> list[Path]:
    """The Java sources, sorted."""
    return sorted((HERE / "io").rglob("*.java"))


def is_current() -> bool:
    """Whether there is a jar that is not older than its sources."""
    if not JAR.is_file():
        return False
    inputs = [*sources(), *(HERE / _SERVICES).iterdir()]
    return all(JAR.stat().st_mtime >= path.stat().st_mtime for path in inputs)


def build(jar: Path = JAR) -> Path:
    """Compiles the sources into `jar`.

    Raises:
        JarBuildError: no JDK, no pyspark, or one of another version.
        CompileError: an error in the sources.
    """
    javac = shutil.which("javac")
    if javac is None:
        raise JarBuildError(
            "javac is not on the PATH; install a JDK 17 or later: apt-get install openjdk-17-jdk-headless"
        )
    with tempfile.TemporaryDirectory() as folder:
        classes = Path(folder)
        command = [javac, "--release", str(JAVA_RELEASE), "-proc:none", "-nowarn", "-encoding", "UTF-8"]
        command += ["-g:source,lines"]
        command += ["-cp", str(_spark_jars() / "*"), "-d", folder, *map(str, sources())]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise CompileError(f"javac failed:\n{result.stderr}")
        for service in (HERE / _SERVICES).iterdir():
            target = classes / _SERVICES / service.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(service, target)
        _pack(classes, jar)
    return jar


def _spark_jars() -> Path:
    found = find_spec("pyspark")
    homes = [Path(place) for place in (found.submodule_search_locations or ())] if found else []
    if "SPARK_HOME" in os.environ:
        homes.append(Path(os.environ["SPARK_HOME"]))
    for home in homes:
        if (home / "jars").is_dir():
            return _of_our_spark(home / "jars")
    raise JarBuildError("there is no Spark to compile against; install pyspark, or set SPARK_HOME")


def _of_our_spark(jars: Path) -> Path:
    versions = [path.stem.rpartition("-")[2] for path in jars.glob("spark-core_*.jar")]
    if not any(version.startswith(f"{SPARK}.") for version in versions):
        raise JarBuildError(f"the connector is for Spark {SPARK}; in {jars} is {', '.join(versions) or 'none'}")
    return jars


def _pack(classes: Path, jar: Path) -> None:
    # Written aside and renamed: a Spark that starts meanwhile sees the old jar or the new one.
    draft = jar.with_suffix(".tmp")
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "META-INF/MANIFEST.MF", b"Manifest-Version: 1.0\r\n\r\n")
        for path in sorted(classes.rglob("*")):
            if path.is_file():
                _add(archive, path.relative_to(classes).as_posix(), path.read_bytes())
    draft.replace(jar)


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, data)


def main() -> int:
    """Builds the jar unless it is current; 1 if it cannot be built."""
    if is_current():
        return 0
    try:
        sys.stdout.write(f"{build()}\n")
    except JarBuildError as error:
        sys.stderr.write(f"the connector's jar is not built: {error}\nThe plug-in works without it.\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
