"""The connector's jar: which one a session takes, how it is compiled at first use, and what the errors say."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lance_spark.errors import LanceError, NotFoundError, UnsupportedFeatureError
from lance_spark.spark.jvm import build, jar

needs_javac = pytest.mark.skipif(shutil.which("javac") is None, reason="no JDK: javac is not on the PATH")


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A package with one small Java class and no jar, and a user without compiled jars."""
    folder = tmp_path / "package"
    (folder / "io").mkdir(parents=True)
    (folder / "io" / "A.java").write_text("package io; public class A {}")
    services = folder / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / "a.Service").write_text("io.A\n")
    monkeypatch.setattr(build, "HERE", folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(jar.FOLDER_VARIABLE, raising=False)
    jar._folder_of_process.cache_clear()
    return folder


@pytest.fixture
def spark_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A Spark 4.3.0 in name only: the small class needs none of its jars."""
    return fake_spark(monkeypatch, tmp_path, "4.3.0")


def fake_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> Path:
    home = tmp_path / f"spark-{version}"
    (home / "jars").mkdir(parents=True)
    with zipfile.ZipFile(home / "jars" / f"spark-core_2.13-{version}.jar", "w") as archive:
        archive.writestr("empty", b"")
    monkeypatch.setenv("SPARK_HOME", str(home))
    return home


@pytest.mark.slow
@needs_javac
def test_jar_is_compiled_once_into_the_folder_of_the_user(
    package: Path, spark_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = Path(jar.jar_path())
    folder = tmp_path / "cache" / "lance-spark"
    assert first.parent == folder
    assert capsys.readouterr().err == (
        f"lance_spark compiles its Java classes for Spark 4.3.0, once, for up to a minute: {first}\n"
    )
    assert first.name.startswith("lance-spark-4.3.0-")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    with zipfile.ZipFile(first) as archive:
        assert archive.namelist() == ["META-INF/MANIFEST.MF", "META-INF/services/a.Service", "io/A.class"]
    compiled = first.stat()
    assert Path(jar.jar_path()) == first
    assert (first.stat().st_mtime_ns, first.stat().st_ino) == (compiled.st_mtime_ns, compiled.st_ino)
    assert capsys.readouterr().err == ""
    assert [path.name for path in folder.iterdir()] == [first.name]
    assert not build.jar_of("4.3").exists(), "the package's folder is not written to"


@pytest.mark.slow
@needs_javac
def test_jar_is_compiled_again_for_other_sources_or_another_spark(
    package: Path, spark_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = jar.jar_path()
    fake_spark(monkeypatch, tmp_path, "4.3.1")
    second = jar.jar_path()
    (package / "io" / "A.java").write_text("package io; public class A { int more; }")
    third = jar.jar_path()
    (package / "META-INF" / "services" / "a.Service").write_text("io.B\n")
    assert len({first, second, third, jar.jar_path()}) == 4


@pytest.mark.slow
@needs_javac
def test_jar_of_the_package_is_taken_only_if_it_was_made_of_its_sources(package: Path, spark_home: Path) -> None:
    build.build()
    assert jar.jar_path() == str(build.jar_of("4.3"))
    os.utime(package / "io" / "A.java")
    assert jar.jar_path() == str(build.jar_of("4.3")), "times say nothing about content: pip sets them when it unpacks"
    (package / "io" / "A.java").write_text("package io; public class A { int more; }")
    assert jar.jar_path() != str(build.jar_of("4.3"))


def test_jar_of_a_package_without_sources_is_taken(package: Path, spark_home: Path) -> None:
    shutil.rmtree(package / "io")
    build.jar_of("4.3").write_bytes(b"jar")
    assert jar.jar_path() == str(build.jar_of("4.3"))


@pytest.mark.slow
@needs_javac
@pytest.mark.parametrize("left", [b"", b"PK\x03\x04 half of it"])
def test_damaged_jar_is_compiled_again(package: Path, spark_home: Path, left: bytes) -> None:
    path = Path(jar.jar_path())
    path.write_bytes(left)
    assert Path(jar.jar_path()) == path
    with zipfile.ZipFile(path) as archive:
        assert "io/A.class" in archive.namelist()


@pytest.mark.slow
@needs_javac
def test_processes_compile_at_once_without_harm(package: Path, spark_home: Path, tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from lance_spark.spark.jvm import build, jar\n"
        "build.HERE = Path(sys.argv[1])\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "print(jar.jar_path())"
    )
    command = [sys.executable, "-c", script, str(package)]
    start = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **start) for _ in range(3)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    answers = {process.communicate(timeout=120)[0].strip() for process in processes}
    (path,) = answers
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert build.is_current("4.3", Path(path))
    assert list((tmp_path / "cache" / "lance-spark").iterdir()) == [Path(path)], "no draft is left"


@pytest.mark.slow
@needs_javac
def test_folder_that_others_can_write_is_not_used(package: Path, spark_home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "lance-spark"
    folder.mkdir(parents=True)
    planted = folder / Path(jar.jar_path()).name
    folder.chmod(0o777)
    taken = Path(jar.jar_path())
    assert taken.parent != folder
    assert taken.name == planted.name
    assert build.is_current("4.3", taken)
    assert stat.S_IMODE(taken.parent.stat().st_mode) == 0o700


@pytest.mark.slow
@needs_javac
def test_folder_that_is_a_link_is_not_used(package: Path, spark_home: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "lance-spark").symlink_to(tmp_path / "elsewhere")
    assert tmp_path not in Path(jar.jar_path()).parents
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.slow
@needs_javac
def test_home_that_cannot_hold_a_folder_costs_a_compilation_a_process(
    package: Path, spark_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/cache")
    path = jar.jar_path()
    assert build.is_current("4.3", Path(path))
    assert jar.jar_path() == path


@pytest.mark.slow
@needs_javac
def test_folder_of_the_environment_variable(
    package: Path, spark_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LANCE_SPARK_JAR_DIR", str(tmp_path / "jars"))
    assert Path(jar.jar_path()).parent == tmp_path / "jars"
    monkeypatch.setenv("LANCE_SPARK_JAR_DIR", "/dev/null/jars")
    with pytest.raises(NotFoundError, match="LANCE_SPARK_JAR_DIR names /dev/null/jars: Not a directory"):
        jar.jar_path()


def test_error_no_jdk(package: Path, spark_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NotFoundError, match=r"cannot be compiled here: there is no Java compiler.*install a JDK 17"):
        jar.jar_path()


@pytest.mark.slow
@needs_javac
def test_compiler_of_java_home_is_used(
    package: Path, spark_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = Path(shutil.which("javac") or "").resolve()
    monkeypatch.setenv("JAVA_HOME", str(real.parents[1]))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build.is_current("4.3", Path(jar.jar_path()))


def test_error_old_jdk(package: Path, spark_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "old" / "bin" / "javac"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'error: release version 17 not supported' >&2\nexit 2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(NotFoundError, match=r"old/bin/javac is too old; install a JDK 17 or later"):
        jar.jar_path()


def test_error_no_pyspark(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(build, "find_spec", lambda name: None)
    with pytest.raises(NotFoundError, match=r"no Spark to compile against.*pip install 'pyspark==4\.3\.\*'"):
        jar.jar_path()


def test_error_another_spark(package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_spark(monkeypatch, tmp_path, "5.0.0")
    with pytest.raises(UnsupportedFeatureError, match=r"the connector supports Spark 4\.\d to 4\.3, this is 5\.0\.0; "):
        jar.jar_path()
    with pytest.raises(UnsupportedFeatureError, match=r"this is 3\.5\.1"):
        jar.jar_path("3.5.1")


def test_error_jar_of_another_minor_than_the_spark_to_compile_against(package: Path, spark_home: Path) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"it is for Spark 4\.2, and the Spark in .*jars is 4\.3\.0"):
        jar.jar_path("4.2.1")


@pytest.mark.parametrize(("version", "minor"), [("4.2.1", "4.2"), ("4.3.0-SNAPSHOT", "4.3"), ("4.3.0.dev1", "4.3")])
def test_jar_of_the_package_is_that_of_the_minor(
    package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, minor: str
) -> None:
    shutil.rmtree(package / "io")
    for each in build.MINORS:
        build.jar_of(each).write_bytes(b"jar")
    assert jar.jar_path(version) == str(package / f"lance-spark-{minor}.jar")
    fake_spark(monkeypatch, tmp_path, version)
    assert jar.jar_path() == str(package / f"lance-spark-{minor}.jar")


def test_minor_takes_the_newest_class_that_is_not_newer(package: Path) -> None:
    for name in ("spark-4.2/io/B.java", "spark-4.3/io/B.java", "spark-4.3/io/C.java"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).touch()
    chosen = {m: [path.relative_to(package).as_posix() for path in build.sources(m)] for m in ("4.2", "4.3")}
    assert chosen == {
        "4.2": ["io/A.java", "spark-4.2/io/B.java"],
        "4.3": ["io/A.java", "spark-4.3/io/B.java", "spark-4.3/io/C.java"],
    }
    before = build.digest("4.2")
    (package / "spark-4.3" / "io" / "B.java").write_text("changed")
    assert build.digest("4.2") == before
    (package / "spark-4.2" / "io" / "B.java").write_text("changed")
    assert build.digest("4.2") != before


def test_error_no_sources(package: Path, spark_home: Path) -> None:
    shutil.rmtree(package / "io")
    with pytest.raises(NotFoundError, match=r"the Java sources are missing from .*io; install lance-spark again"):
        jar.jar_path()


@pytest.mark.slow
@needs_javac
def test_error_of_the_compiler_names_the_first_fault(package: Path, spark_home: Path) -> None:
    (package / "io" / "A.java").write_text("package io;\npublic class A { Absent first; Missing second; }")
    with pytest.raises(
        UnsupportedFeatureError, match=r"javac failed: .*A\.java:2: error: cannot find symbol"
    ) as caught:
        jar.jar_path()
    assert isinstance(caught.value, LanceError)
    assert isinstance(caught.value.__cause__, build.CompileError)


def test_errors_that_miss_something_say_what_works_without_the_jar(package: Path, spark_home: Path) -> None:
    shutil.rmtree(package / "io")
    with pytest.raises(NotFoundError, match=r'spark\.read\.format\("lance"\) works without it'):
        jar.jar_path()
