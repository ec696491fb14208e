"""The connector's Java classes know each other in no circle, Spark's internals are behind `compat`, and each minor
version of Spark has a version of each class that is used."""

from __future__ import annotations

import re

import pytest

from lance_spark.spark.jvm import build
from tests.support.circles import circle

OURS = "io.lancespark"

INTERNALS = re.compile(
    r"org\.apache\.spark\.(?:sql\.(?:catalyst|execution|classic|internal)|api\.python)\."
    # Types in signatures of Spark's public interfaces for connectors: whoever implements these names them.
    r"(?!InternalRow\b|util\.ArrayData\b|analysis\.(?:NoSuch\w+|\w+AlreadyExistsException|NonEmptyNamespaceException)\b)"
)

USERS_OF_INTERNALS = ["io/lancespark/python/LancePython.java", "io/lancespark/python/LanceRunner.java"]


def without_comments_and_texts(source: str) -> str:
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', " ", source, flags=re.DOTALL)


def classes(minor: str) -> dict[str, str]:
    """The sources of the top-level classes of a minor version of Spark by qualified name."""
    found = {}
    for path in build.sources(minor):
        source = path.read_text(encoding="utf-8")
        package = re.match(r"package ([\w.]+);", source)
        assert package is not None, path
        found[f"{package[1]}.{path.stem}"] = source
    return found


def uses(name: str, source: str, known: set[str]) -> set[str]:
    """Classes of `known` that a source imports, names in full, or shares a package with and names."""
    package = name.rpartition(".")[0]
    text = without_comments_and_texts(source)
    words = set(re.findall(r"\w+", text))
    named = {other for other in known if other.rpartition(".")[0] == package and other.rpartition(".")[2] in words}
    for qualified in re.findall(rf"\b{re.escape(OURS)}\.[\w.]+", text):
        named |= {other for other in known if f"{qualified}.".startswith(f"{other}.")}
    return named - {name}


def class_graph(minor: str) -> dict[str, set[str]]:
    sources = classes(minor)
    return {name: uses(name, source, set(sources)) for name, source in sources.items()}


def test_uses_are_imports_and_names_of_the_package() -> None:
    known = {"io.lancespark.a.One", "io.lancespark.a.Two", "io.lancespark.b.Three", "io.lancespark.b.Four"}
    source = """package io.lancespark.a;
    import io.lancespark.b.Three.Inner;
    /** Not {@link Four}, and not Two. */
    class One { String text = "Two"; }"""
    assert uses("io.lancespark.a.One", source, known) == {"io.lancespark.b.Three"}
    assert uses("io.lancespark.a.One", source + " class X extends Two {}", known) == {
        "io.lancespark.a.Two",
        "io.lancespark.b.Three",
    }


@pytest.mark.parametrize("minor", build.MINORS)
def test_classes_know_each_other_in_no_circle(minor: str) -> None:
    graph = class_graph(minor)
    assert len(graph) > 50
    assert circle(graph) is None


@pytest.mark.parametrize("minor", build.MINORS)
def test_packages_know_each_other_in_no_circle(minor: str) -> None:
    packages: dict[str, set[str]] = {}
    for name, others in class_graph(minor).items():
        package = name.rpartition(".")[0]
        packages.setdefault(package, set()).update(other.rpartition(".")[0] for other in others)
    graph = {package: others - {package} for package, others in packages.items()}
    assert graph[f"{OURS}.compat"] == set(), "compat is below all other packages"
    assert circle(graph) is None


@pytest.mark.parametrize("minor", build.MINORS)
def test_minor_has_all_classes_that_it_uses(minor: str) -> None:
    """Imports, names in full, and names of classes that other minors have in the same package."""
    here = classes(minor)
    every = {name for each in build.MINORS for name in classes(each)}
    missing = {name: uses(name, source, every) - set(here) for name, source in here.items()}
    assert {name: sorted(classes) for name, classes in missing.items() if classes} == {}
    for name, source in here.items():
        imported = re.findall(rf"^import (?:static )?({re.escape(OURS)}\.[\w.]+);", source, re.MULTILINE)
        assert [text for text in imported if not any(f"{text}.".startswith(f"{other}.") for other in here)] == [], name


def test_class_is_common_or_by_minor() -> None:
    common = {path.relative_to(build.HERE) for path in (build.HERE / "io").rglob("*.java")}
    for folder in build.HERE.glob("spark-*"):
        assert folder.name.removeprefix("spark-") in build.MINORS
        by_minor = {path.relative_to(folder) for path in folder.rglob("*.java")}
        assert by_minor & common == set(), folder
        assert {path.parts[0] for path in by_minor} <= {"io"}, folder


def test_java_knows_the_minors() -> None:
    text = (build.HERE / "io" / "lancespark" / "python" / "LanceSpark.java").read_text(encoding="utf-8")
    listed = re.search(r"MINORS = List\.of\(([^)]*)\)", text)
    assert listed is not None
    assert tuple(re.findall(r'"([\d.]+)"', listed[1])) == build.MINORS
    for minor in build.MINORS:
        assert f'NAME = "{minor}"' in classes(minor)[f"{OURS}.compat.SparkMinor"]


def test_internals_of_spark_are_behind_compat() -> None:
    users = [
        path.relative_to(build.HERE).as_posix()
        for path in sorted({path for minor in build.MINORS for path in build.sources(minor)})
        if "compat" not in path.parts and INTERNALS.search(without_comments_and_texts(path.read_text(encoding="utf-8")))
    ]
    assert sorted(users) == USERS_OF_INTERNALS


@pytest.mark.parametrize(
    ("line", "is_internal"),
    [
        ("import org.apache.spark.sql.catalyst.plans.logical.Project;", True),
        ("import org.apache.spark.sql.internal.SQLConf;", True),
        ("import org.apache.spark.sql.classic.SparkSession;", True),
        ("import org.apache.spark.sql.execution.SparkPlan;", True),
        ("import org.apache.spark.api.python.PythonUtils;", True),
        ("import org.apache.spark.sql.catalyst.InternalRow;", False),
        ("import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;", False),
        ("import org.apache.spark.sql.connector.catalog.Table;", False),
        ("import org.apache.spark.sql.types.StructType;", False),
    ],
)
def test_internals_are_recognized(line: str, is_internal: bool) -> None:
    assert bool(INTERNALS.search(line)) is is_internal
