"""The example of a declarative pipeline runs, and its tables have the rows that their definitions ask for."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.support.session_scripts import connect_port, spark_environment

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
TABLES = """\
orders [{'id': 1, 'city': 'Oslo', 'amount': 10}, {'id': 2, 'city': 'Rome', 'amount': 20}]
totals [{'city': 'Oslo', 'total': 10}, {'city': 'Rome', 'total': 20}]
messages [{'id': 1, 'text': 'a mail'}, {'id': 2, 'text': 'a call'}]
"""


@pytest.mark.since("4.2", "pipelines as the example declares them")
@pytest.mark.slow
def test_pipeline_example_fills_its_tables(jar: Path, tmp_path: Path) -> None:
    with connect_port():
        result = subprocess.run(
            [sys.executable, str(ROOT / "examples" / "pipeline" / "run.py"), str(tmp_path)],
            capture_output=True,
            text=True,
            env=spark_environment(),
            timeout=500,
            check=False,
        )
    assert result.returncode == 0, result.stderr[-6000:]
    assert TABLES in result.stdout
    histories = [line for line in result.stdout.splitlines() if line.startswith("customer_history ")]
    assert len(histories) == (pyspark.__version__ >= "4.3")
    for history in histories:
        rows = ast.literal_eval(history.partition(" ")[2])
        ends = {row["name"]: (row["__START_AT"], row["__END_AT"]) for row in rows}
        assert ends == {"An": (1, 3), "Ann": (3, None), "Bob": (2, 4)}
    (customers,) = [line for line in result.stdout.splitlines() if line.startswith("customers ")]
    assert "'name': 'Ann'" in customers, "the newest change of a key counts"
    assert "Bob" not in customers, "deleted"
