"""A statement whose scans of one table get different versions, because another writer commits between their loads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.connector.script_session import printed

COMMIT_BETWEEN_LOADS = """
import json, os
import pyarrow as pa
import lance_spark
from lance_spark.spark.connector.channel import registry

answer = registry.answer

def answer_and_append(request, attachments):
    reply = answer(request, attachments)
    go = os.environ["APPEND_TO"]
    # The target is loaded then, and what is read by a subquery is not.
    if json.loads(request)["op"] == "row_level.begin" and os.path.exists(go):
        uri = open(go).read()
        os.remove(go)
        rows = pa.table({"id": pa.array([50], pa.int64()), "k": ["a"], "v": pa.array([0], pa.int64())})
        lance_spark.open(uri).append(rows)
    return reply

registry.answer = answer_and_append
"""

STATEMENTS = """
import os
from lance_spark.namespace.directory.namespace import DirectoryNamespace

newest = "(SELECT max(id) AS id FROM lance.{t})"
statements = [
    ("", "serializable", f"DELETE FROM lance.{{t}} WHERE id IN {newest}"),
    ("PARTITIONED BY (k)", "serializable", f"UPDATE lance.{{t}} SET v = 1 WHERE id = {newest}"),
    ("", "snapshot", f"MERGE INTO lance.{{t}} t USING {newest} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 1"),
]
for number, (partitions, level, statement) in enumerate(statements):
    t = f"t{number}"
    spark.sql(
        f"CREATE TABLE lance.{t} (id BIGINT, k STRING, v BIGINT) USING lance {partitions} "
        f"TBLPROPERTIES ('isolation-level' = '{level}')"
    )
    spark.sql(f"INSERT INTO lance.{t} SELECT id, 'a', 0L FROM range(10)")
    Path(os.environ["APPEND_TO"]).write_text(DirectoryNamespace(root).table_location((t,)).uri)
    spark.sql(statement.format(t=t))
    assert not Path(os.environ["APPEND_TO"]).exists()
    found = sorted((row.id, row.v) for row in spark.table(f"lance.{t}").collect())
    changed = [] if statement.startswith("DELETE") else [(50, 1)]
    assert found == [*((key, 0) for key in range(10)), *changed], (statement, found)
"""


@pytest.mark.slow
def test_statement_runs_again_if_its_scans_have_read_two_versions(
    jar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would find no row with the newest id in the older version, and succeed without a change."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(COMMIT_BETWEEN_LOADS)
    paths = [str(site), str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    monkeypatch.setenv("APPEND_TO", str(tmp_path / "append"))
    printed(jar, tmp_path, STATEMENTS)
