"""Compiles the connector's jar: ``python -m lance_spark.spark.jvm.build`` builds it in the package and prints its path.

Each minor version of Spark has a jar of its own. The classes in ``io`` are the same for all minors. The others lie in
folders named by the first minor that they fit, such as ``spark-4.1``: of several versions of a class, a minor takes
the one in the newest folder that is not newer than itself.

The sources are compiled by plain `javac` against the jars that pyspark carries, or those that ``--spark-jars`` names.
The same sources give the same bytes: entries are sorted and have a fixed time. The jar's manifest has a digest of the
sources, by which a jar that was made of other sources is recognised.

This file imports nothing of the package, so that a wheel can be built where the package is not installed. Sessions that
find no jar in the package use `lance_spark.spark.jvm.jar`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

HERE = Path(__file__).resolve().parent
JAVA_RELEASE = 17
MINORS = ("4.0", "4.1", "4.2", "4.3")
"""The minor versions of Spark that the connector supports, in ascending order."""

_SERVICES = "META-INF/services"
_MANIFEST = "META-INF/MANIFEST.MF"
_DIGEST = "Lance-Sources"
_EPOCH = (1980, 1, 1, 0, 0, 0)


class JarBuildError(Exception):
    """The jar cannot be built here; the message says what is missing."""


class WrongSparkError(JarBuildError):
    """The connector does not support the version of Spark, or the Spark to compile against is of another minor."""


class CompileError(Exception):
    """javac refused the sources.

    Args:
        message: its first error.
        output: all that it said.
    """

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        self.output = output


def minor_of(version: str) -> str:
    """The minor of a version of Spark.

    Raises:
        WrongSparkError: the connector does not support it.
    """
    minor = ".".join(version.split(".")[:2])
    if minor not in MINORS:
        raise WrongSparkError(f"the connector supports Spark {MINORS[0]} to {MINORS[-1]}, this is {version}")
    return minor


def jar_of(minor: str) -> Path:
    """The place of a minor's jar in the package."""
    return HERE / f"lance-spark-{minor}.jar"


def sources(minor: str) -> list[Path]:
    """The Java sources of a minor, sorted by class; none if the package was installed without them."""
    folders = [HERE / f"spark-{each}" for each in MINORS[: MINORS.index(minor) + 1]]
    chosen = {path.relative_to(folder): path for folder in [HERE, *folders] for path in _classes(folder)}
    return [chosen[name] for name in sorted(chosen)]


def _classes(folder: Path) -> list[Path]:
    return list((folder / "io").rglob("*.java"))


def digest(minor: str) -> str:
    """40 hexadecimal digits that change with the sources, and with the versions of Java and Spark they are for."""
    content = hashlib.sha256(f"{JAVA_RELEASE} {minor}".encode())
    for path in [*sources(minor), *_services()]:
        data = path.read_bytes()
        content.update(f"\n{path.relative_to(HERE).as_posix()} {len(data)}\n".encode())
        content.update(data)
    return content.hexdigest()[:40]


def is_current(minor: str, jar: Path | None = None) -> bool:
    """Whether `jar` (the package's if None) exists, is complete and was made of the sources of `minor`."""
    try:
        with zipfile.ZipFile(jar or jar_of(minor)) as archive:
            return _manifest(minor) == archive.read(_MANIFEST)
    except (OSError, zipfile.BadZipFile, KeyError):
        return False


def build(jar: Path | None = None, jars: Path | None = None) -> Path:
    """Compiles the sources of a Spark into `jar` (the package's if None), which is published atomically.

    Args:
        jar: the file to write.
        jars: folder with the jars of Spark; `spark_jars` if None.

    Raises:
        JarBuildError: no JDK, no Spark, no sources, or a folder that cannot be written.
        WrongSparkError: the connector does not support the version of Spark.
        CompileError: an error in the sources.
    """
    jars = jars or spark_jars()
    minor = minor_of(spark_version(jars))
    jar = jar or jar_of(minor)
    files = sources(minor)
    if not files:
        raise JarBuildError(
            f"the Java sources are missing from {HERE / 'io'}; install lance-spark again from its wheel, its sdist or "
            "its source tree"
        )
    classpath = str(jars / "*")
    javac = _javac()
    with tempfile.TemporaryDirectory(prefix="lance-spark-") as folder:
        command = [javac, "--release", str(JAVA_RELEASE), "-proc:none", "-nowarn", "-encoding", "UTF-8"]
        command += ["-g:source,lines", "-cp", classpath, "-d", folder, *map(str, files)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise _failure(javac, result.stderr)
        _pack(Path(folder), minor, jar)
    return jar


def package_jar(jars: Path | None = None) -> Path:
    """The package's jar for a Spark, compiled unless it is current; argument and errors as `build`."""
    jars = jars or spark_jars()
    minor = minor_of(spark_version(jars))
    return jar_of(minor) if is_current(minor) else build(jars=jars)


def spark_jars() -> Path:
    """The folder with the jars of the Spark that sessions start: SPARK_HOME's, or else pyspark's.

    Raises:
        JarBuildError: there is none.
    """
    homes = [Path(os.environ["SPARK_HOME"])] if os.environ.get("SPARK_HOME") else []
    found = find_spec("pyspark")
    homes += [Path(place) for place in (found.submodule_search_locations or ())] if found else []
    for home in homes:
        if (home / "jars").is_dir():
            return home / "jars"
    raise JarBuildError(
        f"there is no Spark to compile against: {sys.executable} has no pyspark with jars and SPARK_HOME names none; "
        f"pip install 'pyspark=={MINORS[-1]}.*', or set SPARK_HOME"
    )


def spark_version(jars: Path) -> str:
    """The version of the Spark whose jars these are; "none" if the folder has no Spark."""
    versions = sorted(path.stem.split("-", 2)[2] for path in jars.glob("spark-core_*-*.jar"))
    return ", ".join(versions) or "none"


def _javac() -> str:
    home = os.environ.get("JAVA_HOME")
    javac = (home and shutil.which(str(Path(home) / "bin" / "javac"))) or shutil.which("javac")
    if javac is None:
        raise JarBuildError(
            f"there is no Java compiler: javac is neither in JAVA_HOME nor on the PATH, and a runtime (JRE) has none; "
            f"install a JDK {JAVA_RELEASE} or later, such as openjdk-17-jdk-headless"
        )
    return javac


def _failure(javac: str, output: str) -> Exception:
    lines = [line for line in output.splitlines() if "error:" in line] or output.splitlines() or ["no message"]
    if "release version" in lines[0] or "invalid flag: --release" in output:
        return JarBuildError(f"{javac} is too old; install a JDK {JAVA_RELEASE} or later, or let JAVA_HOME name one")
    return CompileError(f"javac failed: {lines[0].strip()}", output)


def _services() -> list[Path]:
    folder = HERE / _SERVICES
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _manifest(minor: str) -> bytes:
    return f"Manifest-Version: 1.0\r\n{_DIGEST}: {digest(minor)}\r\n\r\n".encode()


def _pack(classes: Path, minor: str, jar: Path) -> None:
    # Written to a file of its own and renamed: a Spark that starts meanwhile sees the old jar or the new one, and two
    # processes that build at once do not write into each other's file.
    try:
        handle, draft = tempfile.mkstemp(dir=jar.parent, prefix=f"{jar.stem}-", suffix=".tmp")
    except OSError as error:
        raise JarBuildError(f"the jar cannot be written to {jar.parent}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            _write(classes, minor, file)
        Path(draft).chmod(0o644)
        Path(draft).replace(jar)
    except OSError as error:
        Path(draft).unlink(missing_ok=True)
        raise JarBuildError(f"the jar cannot be written to {jar.parent}: {error.strerror}") from error


def _write(classes: Path, minor: str, file: BinaryIO) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, _MANIFEST, _manifest(minor))
        entries = {path.relative_to(classes).as_posix(): path for path in classes.rglob("*") if path.is_file()}
        entries |= {path.relative_to(HERE).as_posix(): path for path in _services()}
        for name in sorted(entries):
            _add(archive, name, entries[name].read_bytes())


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, data)


def main() -> int:
    """Builds the package's jar for a Spark unless it is current, and prints its path; 1 if it cannot be built."""
    parser = argparse.ArgumentParser(description="Compiles the connector's jar and prints its path.")
    parser.add_argument("--spark-jars", type=Path, metavar="FOLDER", help="the jars of another Spark")
    jars = parser.parse_args().spark_jars
    try:
        sys.stdout.write(f"{package_jar(jars)}\n")
    except CompileError as error:
        sys.stderr.write(f"{error.output}\nthe connector's jar is not built: {error}\n")
        return 1
    except JarBuildError as error:
        sys.stderr.write(f"the connector's jar is not built: {error}\nThe plug-in works without it.\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
