"""Python workers with a limit on their memory that is too small: an error that says so, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.connector.script_session import printed

pytestmark = pytest.mark.slow

INSERT = """
spark.sql("CREATE TABLE lance.t (id BIGINT, s STRING)")
try:
    spark.sql("INSERT INTO lance.t SELECT id, repeat('x', 10) FROM range(0, 1000, 1, 2)")
    raise SystemExit("the limit is too high for this test")
except Exception as error:
    assert (error.getCondition(), error.getSqlState()) == ("LANCE_OUT_OF_MEMORY", "53200"), error
    assert "Raise spark.executor.pyspark.memory" in str(error) and "Traceback" not in str(error), error
assert spark.sql("SELECT version FROM lance.t.versions").count() == 1
assert not list(Path(root).rglob("*.lance/data/*.lance"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["200m", "500m"])
def test_a_limit_that_is_too_small(jar: Path, tmp_path: Path, limit: str) -> None:
    """100 MB a worker are too little for numpy, 250 for LLVM."""
    printed(jar, tmp_path, INSERT, f"spark.executor.pyspark.memory={limit}")
