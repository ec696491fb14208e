"""Test modules share definitions through `tests/support` alone, so that each can be moved, split or run by itself."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_no_test_module_imports_another() -> None:
    imported = []
    for folder in ("tests", "integration", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and node.module:
                    names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                elif isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                else:
                    continue
                imported += [
                    (str(path.relative_to(ROOT)), name)
                    for name in names
                    if name.startswith(("tests.", "integration."))
                    and any(part.startswith("test_") for part in name.split("."))
                ]
    assert imported == []
