"""Location of the connector's jar: in the package, or compiled from its Java sources when it is first needed.

A wheel that was built beside a Spark and a JDK has a jar, and those of other minor versions of Spark that its source
tree had. One that pip built by itself, from a source tree, an sdist or a git URL, has the sources alone: pip builds in
an environment of its own, where no Spark is. The jar is compiled then by the first session, in some seconds, and kept
in a folder of the user.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path

from lance_spark.errors import LanceError, NotFoundError, UnsupportedFeatureError
from lance_spark.spark.jvm import build

FOLDER_VARIABLE = "LANCE_SPARK_JAR_DIR"
"""Environment variable with the folder for compiled jars. It is trusted: whoever writes there runs code as the user."""


def jar_path(version: str | None = None) -> str:
    """The path of the connector's jar, which is compiled if need be.

    Args:
        version: of the Spark that the jar is for; that of the Spark that is here if None.

    Raises:
        NotFoundError: there is no jar, and no JDK, Spark or Java sources to make it.
        UnsupportedFeatureError: the connector does not support the version, or the Spark that is here is of another
            minor, or its jars do not fit the sources.
    """
    minor = supported_minor(version or _version_here())
    jar = build.jar_of(minor)
    if build.is_current(minor) or (jar.is_file() and not build.sources(minor)):
        return str(jar)
    try:
        return str(_compiled(minor))
    except (build.JarBuildError, build.CompileError) as error:
        raise _explained(error) from error


def supported_minor(version: str) -> str:
    """The minor of a version of Spark.

    Raises:
        UnsupportedFeatureError: the connector does not support it.
    """
    try:
        return build.minor_of(version)
    except build.WrongSparkError as error:
        raise UnsupportedFeatureError(
            f'{error}; install one of these, or use spark.read.format("lance") without the connector',
            feature="connector",
            version=version,
        ) from error


def jar_bytes() -> bytes:
    """The content of the connector's jar; raises as `jar_path`."""
    return Path(jar_path()).read_bytes()


def _version_here() -> str:
    try:
        return build.spark_version(build.spark_jars())
    except build.JarBuildError as error:
        raise _explained(error) from error


def _compiled(minor: str) -> Path:
    jars = build.spark_jars()
    version = build.spark_version(jars)
    if build.minor_of(version) != minor:
        raise build.WrongSparkError(f"it is for Spark {minor}, and the Spark in {jars} is {version}")
    name = f"lance-spark-{version}-{build.digest(minor)[:16]}.jar"
    folder = _folder()
    jar = folder / name
    if build.is_current(minor, jar):
        return jar
    if not os.access(folder, os.W_OK):
        jar = _folder_of_process() / name
    sys.stderr.write(f"lance_spark compiles its Java classes for Spark {version}, once, for up to a minute: {jar}\n")
    return build.build(jar)


def _folder() -> Path:
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        try:
            Path(chosen).mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise build.JarBuildError(f"{FOLDER_VARIABLE} names {chosen}: {error.strerror}") from error
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(base) / "lance-spark"
    return folder if _is_private(folder) else _folder_of_process()


def _is_private(folder: Path) -> bool:
    """Whether only this user writes there. A jar that somebody else put there would run code as this user."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022


@functools.cache
def _folder_of_process() -> Path:
    """For a user without a folder of their own (the home is read-only, or someone else's): until the process ends."""
    folder = tempfile.mkdtemp(prefix="lance-spark-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _explained(error: Exception) -> LanceError:
    """A sentence for users about why there is no jar."""
    plugin = 'without catalog and SQL statements, spark.read.format("lance") works without it'
    message = f"the connector's jar is not in this package and cannot be compiled here: {error}"
    if isinstance(error, (build.WrongSparkError, build.CompileError)):
        return UnsupportedFeatureError(message, feature="connector")
    return NotFoundError(f"{message}; {plugin}")
