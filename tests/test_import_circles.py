"""No module imports itself by way of others: not at run time, and not for type hints."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import lance_spark
from tests.support.circles import circle

PACKAGE = Path(lance_spark.__file__).parent


def modules() -> dict[str, Path]:
    """The modules of the package by name."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = [PACKAGE.name, *path.relative_to(PACKAGE).with_suffix("").parts]
        found[".".join(part for part in parts if part != "__init__")] = path
    return found


def imported(path: Path, known: set[str]) -> set[str]:
    """Those of the modules `known` that a file imports, wherever the statement stands."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(item.name for item in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for item in node.names:
                inner = f"{node.module}.{item.name}"
                found.add(inner if inner in known else node.module)
    return found & known


def test_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"a"}}) is not None
    assert circle({"a": {"b"}, "b": set()}) is None


@pytest.mark.slow
def test_modules_import_in_no_circle() -> None:
    found = modules()
    known = set(found)
    graph = {name: imported(path, known) - {name} for name, path in found.items()}
    assert len(graph) > 400
    assert circle(graph) is None
