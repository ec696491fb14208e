"""The checks of options by name, and what several of them use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import lance
from pyspark.sql import DataFrame, SparkSession

from lance_spark.spark.options import catalog as catalog_options
from lance_spark.spark.options import foreign_names, property_names
from lance_spark.spark.options import names as known
from lance_spark.spark.types.column_properties import SUFFIXES

_REFUSED = {"startingversion", "readchangefeed", "ignoredeletes", "replacewhere", "overwriteschema", "snapshot-id"}
"""Some of the options of streams and of other formats; `tests/spark/test_options.py` has all of them."""

KNOWN: Mapping[str, frozenset[str]] = {
    "read": frozenset(known.READ),
    "write": frozenset(known.WRITE),
    "catalog": frozenset(catalog_options.CATALOG),
    "property": property_names.TABLE_OPTIONS | property_names.OF_ONE_WRITE | property_names._OTHERS,
    "column": frozenset(SUFFIXES),
    "refused": frozenset(foreign_names.OF_JVM_CONNECTOR) | _REFUSED,
}


@dataclass(frozen=True)
class Tables:
    """The tables of one check.

    Attributes:
        by: the clause PARTITIONED BY, empty for plain tables.
        read: a table with the ids 0 to 199, the later half of which came after the version `first`, named by the tag
            `one`.
        new: a name that is free, in a catalog of the session.
        path: a path without a table.
    """

    spark: SparkSession
    by: str
    read: str
    first: int
    new: str
    path: str

    def frames(self, **options: str) -> list[DataFrame]:
        """The table `read` with options, by path and by name."""
        reader = self.spark.read.options(**options)
        return [reader.format("lance").load(location(self.spark, self.read)), reader.table(self.read)]

    def create(self, *properties: str, columns: str = "id BIGINT, k STRING") -> None:
        """Makes the table `new`."""
        clause = f"TBLPROPERTIES ({', '.join(properties)})" if properties else ""
        self.spark.sql(f"CREATE TABLE {self.new} ({columns}) {self.by} {clause}")

    def save(self, rows: str, mode: str = "errorifexists", **options: str) -> None:
        """Writes the rows of a query to `path`, which makes the table unless `mode` says otherwise."""
        writer = self.spark.sql(rows).write.format("lance").mode(mode).options(**options)
        (writer.partitionBy("k") if self.by else writer).save(self.path)


Check = Callable[[Tables, str], None]
CHECKS: dict[tuple[str, str], Check] = {}


def proves(group: str, *names: str) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        for name in names:
            assert (group, name) not in CHECKS
            CHECKS[group, name] = check
        return check

    return register


def location(spark: SparkSession, name: str) -> str:
    row = spark.sql(f"DESCRIBE EXTENDED {name}").where("col_name = 'Location'").first()
    assert row is not None
    return str(row.data_type)


def data_files(where: str) -> set[Path]:
    return {path for path in Path(where).rglob("*.lance") if path.is_file() and "__manifest" not in path.parts}


def datasets(where: str) -> list[lance.LanceDataset]:
    """The table, or its partitions, as the reference library sees them."""
    folders = {path.parent.parent for path in Path(where).rglob("_versions/*.manifest")}
    return [lance.dataset(str(path)) for path in sorted(folders) if path.name != "__manifest"]


def batches_read(frame: DataFrame) -> int:
    frame.collect()
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
    return int(leaves.head().metrics().apply("batches_read").value())


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


ONE = "SELECT 1L AS id, 'a' AS k"
TEN = "SELECT id, 'a' AS k FROM range(0, 10, 1, 1)"
LARGE = (
    "SELECT id, 'a' AS k, concat_ws('', transform(sequence(1, 8), i -> sha2(concat(id, '-', i), 512))) AS text "
    "FROM range(0, 30000, 1, 1)"
)
"""Random text, about 30 MB; writers look at the size of a file after each batch and flush pages of about 8 MB."""

SCATTERED = "SELECT id, if(id % 2 = 0, 'a', 'b') AS k FROM range(0, 100, 1, 4)"

NESTED = "1L AS id, 'a' AS k, X'00' AS b, named_struct('a', 'x', 'l', array(X'01')) AS s"
LARGE_TYPES = ["int64", "large_string", "large_binary", "struct<a: large_string, l: list<item: large_binary>>"]


def types_of(where: str) -> list[str]:
    (part,) = datasets(where)
    return [str(part.schema.field(name).type) for name in ("id", "k", "b", "s")]
