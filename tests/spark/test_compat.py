"""Differences between versions of PySpark have one home, and all other modules work with each version."""

from __future__ import annotations

import ast
import io
import re
import struct
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyspark
import pytest

from lance_spark.spark.compat import SPARK
from lance_spark.spark.compat.worker import worker_run

ROOT = Path(__file__).parents[2]
COMPAT = ROOT / "lance_spark" / "spark" / "compat"
FILES = sorted([*(ROOT / "lance_spark" / "spark").rglob("*.py"), *(ROOT / "pyspark_lance").rglob("*.py")])
OTHERS = [path for path in FILES if COMPAT not in path.parents]
END_OF_DATA, END_OF_STREAM = -1, -4


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_every_module_can_be_imported() -> None:
    for path in FILES:
        import_module(module_of(path))


def test_one_package_asks_for_the_version() -> None:
    asking = [str(path.relative_to(ROOT)) for path in OTHERS if re.search(r"__version__", path.read_text())]
    assert asking == []


def test_names_of_pyspark_exist() -> None:
    """Names in bodies of functions too, which an import of the module does not look up."""
    missing = [f"{module_of(path)}: {name}" for path in OTHERS for name in missing_names(ast.parse(path.read_text()))]
    assert missing == []


def missing_names(tree: ast.AST) -> Iterator[str]:
    modules: dict[str, str] = {}
    for node in walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname: alias.name for alias in node.names if alias.asname is not None}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "pyspark":
            assert node.module is not None
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if not hasattr(import_module(node.module), alias.name) and find_spec(name) is None:
                    yield name
                elif isinstance(getattr(import_module(node.module), alias.name), type(sys)):
                    modules[alias.asname or alias.name] = name
    for node in walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id, "")
            if module.startswith("pyspark.") and not hasattr(import_module(module), node.attr):
                yield f"{module}.{node.attr}"


def walk(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield from walk(child)


def test_version() -> None:
    assert pyspark.__version__.startswith("{}.{}.".format(*SPARK))


def request(*parts: bytes, end: int = END_OF_STREAM) -> io.BufferedReader:
    """The bytes that Spark sends to a planner worker, with `parts` for its function."""
    version = "{}.{}".format(*sys.version_info).encode()
    begin = [struct.pack("!i", len(version)), version, *files_and_broadcasts(), *parts, struct.pack("!i", end)]
    return io.BufferedReader(io.BytesIO(b"".join(begin)))  # type: ignore[arg-type]


def files_and_broadcasts() -> Iterator[bytes]:
    folder = b"/files"
    yield struct.pack("!i", len(folder)) + folder
    yield struct.pack("!i", 0)  # Python files
    yield b"\0"  # a server that decrypts broadcasts
    yield struct.pack("!i", 0)  # broadcasts
    if SPARK >= (4, 2):
        yield struct.pack("!i", 0)  # settings


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The import path, to which a worker adds Spark's folder of files."""
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.mark.usefixtures("path")
def test_loop_of_a_planner_worker() -> None:
    out = io.BytesIO()

    def reverse(infile: Any, outfile: Any) -> None:
        outfile.write(infile.read(3)[::-1])

    worker_run(reverse, request(b"abc"), out)
    assert out.getvalue().startswith(b"cba")
    assert out.getvalue().endswith(struct.pack("!i", END_OF_STREAM))


@pytest.mark.usefixtures("path")
def test_worker_that_is_out_of_step_ends() -> None:
    out = io.BytesIO()
    with pytest.raises(SystemExit):
        worker_run(lambda _infile, _outfile: None, request(end=7), out)
    assert out.getvalue().endswith(struct.pack("!i", END_OF_DATA))


@pytest.mark.usefixtures("path")
def test_error_of_a_planner_worker_is_reported() -> None:
    out = io.BytesIO()

    def fail(_infile: Any, _outfile: Any) -> None:
        raise ValueError("no such thing")

    with pytest.raises(SystemExit):
        worker_run(fail, request(), out)
    assert out.getvalue().startswith(struct.pack("!i", -2))
    assert b"ValueError: no such thing" in out.getvalue()
