"""What Spark logs of statements that fail: one line an attempt, with the name of the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.connector.script_session import printed

FAILURES = """
spark.sql("CREATE TABLE lance.t (id BIGINT, half FLOAT) TBLPROPERTIES ('half.arrow.float16' = 'true')")
spark.sql("INSERT INTO lance.t VALUES (1, 1.0)")
print("==== insert", file=sys.stderr, flush=True)
attempt(lambda: spark.sql("INSERT INTO lance.t VALUES (2, 1e6)"))
print("==== update", file=sys.stderr, flush=True)
attempt(lambda: spark.sql("UPDATE lance.t SET half = 1e6"))
(data,) = Path(root).glob("t.lance/data/*.lance")
data.write_bytes(data.read_bytes()[:-20])
print("==== read", file=sys.stderr, flush=True)
attempt(lambda: spark.table("lance.t").collect())
print("==== end", file=sys.stderr, flush=True)
"""


@pytest.mark.slow
def test_log_of_failed_statements(jar: Path, tmp_path: Path) -> None:
    text = printed(jar, tmp_path, FAILURES, "spark.sql.lance.inlineBytes=0")
    parts = dict(part.split("\n", 1) for part in text.split("==== ")[1:])
    assert "Data source write support lance append " in parts["insert"]
    assert "Data source write support lance UPDATE " in parts["update"]
    assert "io.lancespark.Lance" not in "".join(line for line in text.splitlines() if "\tat " not in line)
    # One line an attempt, for executor and scheduler.
    assert "LANCE_CORRUPT_FILE" in parts["read"]
    for part in parts.values():
        assert "Traceback" not in part
    assert "\tat " not in parts["read"]
