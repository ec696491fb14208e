"""Spark's JDBC server: clients that come one after the other, and databases of a Lance catalog in their URLs."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest
from pyspark.sql import SparkSession

import lance_spark
from integration.spark_servers import beeline, thrift_server

# Several JVMs start one after the other; on a busy machine that takes minutes.
pytestmark = pytest.mark.timeout(1800)


def test_clients_come_and_go(jar: Path, tmp_path: Path) -> None:
    root = tmp_path / "catalog"
    settings = dict(lance_spark.configure(SparkSession.Builder(), root=root)._options)
    with thrift_server(tmp_path, {**settings, "spark.sql.defaultCatalog": "lance"}) as url:
        made = beeline(url + "default", "CREATE TABLE t AS SELECT id FROM range(3)", "SELECT count(*) FROM t")
        assert made == ["3"]
        # What the first client has not used is loaded for the second one.
        changed = beeline(
            url + "lance.default",
            "UPDATE t SET id = id + 10 WHERE id > 0",
            "DELETE FROM t WHERE id = 12",
            "MERGE INTO t USING (SELECT 20L AS id) AS s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
            "OPTIMIZE t",
            "CALL lance.system.restore('default.t', 1)",
            "SELECT id FROM t ORDER BY id",
        )
        assert changed[-3:] == ["0", "1", "2"]
        beeline(url, "CREATE NAMESPACE lance.db", "CREATE TABLE lance.db.u AS SELECT 7 AS x, 'a' AS k")
        assert beeline(url + "lance.db", "SELECT x, k FROM u WHERE x > 1") == ["7,a"]
    (table,) = (place.parent for place in root.rglob("_versions") if "default" in place.parent.name)
    assert lance.dataset(str(table)).count_rows() == 3
