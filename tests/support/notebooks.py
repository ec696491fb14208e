"""Runs the code of a Jupyter notebook without Jupyter: ``python -m tests.support.notebooks NOTEBOOK [--save]``.

Cells run in order in one namespace; what a cell prints and the value of its last expression are its outputs, as Jupyter
stores them. ``--save`` writes the outputs into the notebook.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any


def run(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The outputs of each code cell. Raises what a cell raises."""
    names: dict[str, Any] = {"__name__": "__main__"}
    found = []
    for number, cell in enumerate(code_cells(notebook), start=1):
        found.append(_outputs("".join(cell["source"]), names, number))
    return found


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells with code, in order."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _outputs(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    tree = ast.parse(source, f"cell {number}")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = _lines(value._repr_html_())
        outputs.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main(path: Path, *, save: bool) -> None:
    """Runs a notebook; prints its outputs as JSON."""
    notebook = json.loads(path.read_text())
    sys.path.insert(0, str(path.parent))
    outputs = run(notebook)
    if save:
        for number, (cell, found) in enumerate(zip(code_cells(notebook), outputs, strict=True), start=1):
            cell["outputs"], cell["execution_count"] = found, number
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    sys.stdout.write(json.dumps(outputs) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), save="--save" in sys.argv[2:])
