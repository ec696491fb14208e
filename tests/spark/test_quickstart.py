"""The quickstart runs as printed in the README, and the reference library opens its table."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from sklearn.datasets import load_digits

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_quickstart(tmp_path: Path) -> None:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    script = str(ROOT / "examples" / "quickstart.py")
    result = subprocess.run(
        [sys.executable, script, str(tmp_path)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    assert "The newest version has 1797 rows." in result.stdout
    assert "Version 1 has 1000 rows." in result.stdout
    assert re.search(r"\|1710\|    7\| +\d+\|\[0.0, 0.0, 0.1875\.\.\.\|", result.stdout)
    dataset = lance.dataset(str(tmp_path / "digits.lance"))
    if "Without SQL statements" not in result.stdout:
        assert "filters=[label IS NOT NULL AND id IS NOT NULL AND label = 7 AND id >= 1700]" in result.stdout
        assert dataset.version == 4
        assert dataset.count_rows("label = 0") == 0
        assert dataset.count_rows("label = -9") == 180
        dataset = lance.dataset(str(tmp_path / "digits.lance"), version=2)
    assert dataset.count_rows("label = 7") == 179
    assert dataset.schema.field("vector").type == pa.list_(pa.float32(), 64)
    digits = load_digits().images
    for row in dataset.to_table(columns=["id", "picture"]).to_pylist():
        with Image.open(io.BytesIO(row["picture"])) as picture:
            assert picture.format == "PNG"
            np.testing.assert_array_equal(np.asarray(picture), digits[row["id"]] * 15)
