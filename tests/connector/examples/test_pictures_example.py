"""The notebook with pictures runs, and its outputs are those that it is stored with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.notebooks import code_cells

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
NOTEBOOK = ROOT / "examples" / "pictures.ipynb"


def texts(outputs: list[dict[str, Any]]) -> list[str]:
    return ["".join(output.get("text") or output["data"]["text/plain"]) for output in outputs]


def pictures(outputs: list[dict[str, Any]]) -> int:
    html = "".join("".join(output["data"].get("text/html", [])) for output in outputs if "data" in output)
    return html.count('src="data:image/png;base64,iVBOR')


@pytest.mark.since("4.2", "rows with numbers of numpy")
@pytest.mark.slow
def test_notebook_has_the_outputs_that_it_is_stored_with(jar: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tests.support.notebooks", str(NOTEBOOK)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        timeout=500,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    found = json.loads(result.stdout.splitlines()[-1])
    stored = [cell["outputs"] for cell in code_cells(json.loads(NOTEBOOK.read_text()))]
    assert [texts(outputs) for outputs in found] == [texts(outputs) for outputs in stored]
    assert [pictures(outputs) for outputs in stored] == [pictures(outputs) for outputs in found]
    assert [count for count in map(pictures, found) if count] == [5, 5, 100]
