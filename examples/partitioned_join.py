"""Two tables in buckets of one column: the plan of their join with a shuffle, without it, and its rows.

Run ``python examples/partitioned_join.py``. Needs the connector's jar, which ``make jar`` builds.
"""

import os
import sys
import tempfile

from pyspark.sql import SparkSession

import lance_spark

JOIN = "SELECT o.id, o.item, p.paid FROM lance.orders o JOIN lance.payments p ON o.id = p.id"


def main() -> None:
    """Makes the tables, and shows two plans and the rows of their join."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory() as folder:
        builder = SparkSession.builder.master("local[2]").config("spark.sql.autoBroadcastJoinThreshold", "-1")
        spark = lance_spark.configure(builder, "lance", root=folder).getOrCreate()
        orders, payments = "SELECT id, uuid() item FROM range(99)", "SELECT id * 3 id, id * 1.5D paid FROM range(30)"
        spark.sql(f"CREATE TABLE lance.orders PARTITIONED BY (bucket(8, id)) AS {orders}")
        spark.sql(f"CREATE TABLE lance.payments PARTITIONED BY (bucket(4, id)) AS {payments}")
        for enabled in ("false", "true"):
            spark.conf.set("spark.sql.sources.v2.bucketing.enabled", enabled)
            print(f"Storage-partitioned joins: {enabled}")
            spark.sql(JOIN).explain()
        spark.sql(f"{JOIN} ORDER BY o.id LIMIT 5").show()
        spark.stop()


if __name__ == "__main__":
    main()
