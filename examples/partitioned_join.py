"""Two tables in buckets of one column, joined without moving a row.

Run ``python examples/partitioned_join.py``. Needs the connector's jar, which ``make jar`` builds.
"""

from __future__ import annotations

import os
import sys
import tempfile

from pyspark.sql import SparkSession

import lance_spark


def main() -> None:
    """Makes the tables, and shows the plan and the rows of their join."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory() as folder:
        builder = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.autoBroadcastJoinThreshold", "-1")
        )
        spark = lance_spark.configure(builder, "lance", root=folder).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        spark.sql("CREATE TABLE lance.orders (id BIGINT, item STRING) PARTITIONED BY (bucket(8, id))")
        spark.sql("CREATE TABLE lance.payments (id BIGINT, paid DOUBLE) PARTITIONED BY (bucket(4, id))")
        spark.sql("INSERT INTO lance.orders SELECT id, concat('item ', id) FROM range(100)")
        spark.sql("INSERT INTO lance.payments SELECT id * 3, id * 1.5D FROM range(30)")

        joined = spark.sql("SELECT o.id, o.item, p.paid FROM lance.orders o JOIN lance.payments p ON o.id = p.id")
        joined.explain()
        joined.orderBy("id").show(5)

        spark.sql("UPDATE lance.payments SET paid = 0 WHERE id < 30")
        spark.sql("SELECT count(*) AS unpaid FROM lance.payments WHERE paid = 0").show()
        spark.stop()


if __name__ == "__main__":
    main()
