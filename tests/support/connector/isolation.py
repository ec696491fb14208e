"""Statements with a commit of another writer in between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

RUNS = "spark.sql.lance.maxStatementRuns"


def version(uri: str) -> int:
    """The newest version, of `__manifest` if the table is partitioned."""
    manifests = Path(uri) / "__manifest"
    return int(lance.dataset(str(manifests) if manifests.exists() else uri).version)


def unnamed_files(uri: str) -> set[str]:
    """Data files that the newest versions of the tables below `uri` do not name, and no older version either."""
    named: set[str] = set()
    for folder in [Path(uri), *(path for path in Path(uri).rglob("*") if (path / "_versions").is_dir())]:
        if (folder / "_versions").is_dir() and folder.name != "__manifest":
            for entry in lance.dataset(str(folder)).versions():
                fragments = lance.dataset(str(folder), version=entry["version"]).get_fragments()
                named |= {file.path for item in fragments for file in item.metadata.files}
    found = {path.name for path in Path(uri).rglob("data/*.lance") if "__manifest" not in path.parts}
    return found - named


def meanwhile(spark: SparkSession, uri: str, act: Callable[[], object], times: int = 1) -> None:
    """`meanwhile(id)` is the id; called for row 1, it lets `act` commit first, so many times in all."""
    known, made = version(uri), Path(uri).parent / "acted"
    made.mkdir(exist_ok=True)
    for path in made.iterdir():
        path.unlink()

    def meanwhile(key: int) -> int:
        acted = len(list(made.iterdir()))
        if key == 1 and acted < times:
            (made / str(acted)).touch()
            act()
        return key

    assert known
    spark.udf.register("meanwhile", udf(meanwhile, "bigint"))


def append(uri: str, key: int, part: str = "a") -> Callable[[], object]:
    def act() -> object:
        import lance_spark
        from lance_spark.partitioned.table import is_partitioned_table, open_partitioned
        from tests.partitioned.verbs import save_rows

        rows = pa.table({"id": [key], "k": [part], "v": [100]})
        if is_partitioned_table(uri):
            return save_rows(open_partitioned(uri), rows)
        return lance_spark.write(rows, uri, mode="append")

    return act


def delete(uri: str, condition: str) -> Callable[[], object]:
    def act() -> object:
        import lance_spark
        from lance_spark.partitioned.table import is_partitioned_table, open_partitioned
        from tests.partitioned.verbs import delete_rows

        if is_partitioned_table(uri):
            return delete_rows(open_partitioned(uri), condition)
        return lance_spark.open(uri).delete(condition)

    return act
