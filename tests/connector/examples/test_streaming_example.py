"""The example of streams runs, and its copy and totals have each order once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
COPY = """\
| id|city|amount|
+---+----+------+
|  1|Oslo|    10|
|  2|Rome|    20|
|  3|Rome|    30|
+---+----+------+"""
TOTALS = """\
|city|total|
+----+-----+
|Oslo|   10|
|Rome|   50|
+----+-----+"""


@pytest.mark.slow
def test_streaming_example_copies_each_order_once(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "streaming.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    assert COPY in result.stdout
    assert TOTALS in result.stdout
