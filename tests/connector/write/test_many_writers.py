"""Two Spark sessions, our Python and the reference library write one table at once; each has its own keys.

Whatever order their commits get, in the end each writer's rows are those of its own model.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lance_spark
from lance_spark.errors import CommitConflictError
from tests.support.threads import all_at_once

KEYS = 1000
"""So many keys each writer has."""


def rows(first: int, end: int) -> pa.Table:
    return pa.table({"id": pa.array(range(first, end), pa.int64()), "v": pa.array([0] * (end - first), pa.int64())})


class Writer:
    """Appends, deletes and updates rows with the keys from `first` on, and knows what is left of them."""

    def __init__(self, uri: str, first: int) -> None:
        self.uri, self.first, self.next = uri, first, first
        self.model: dict[int, int] = {}
        self.own = f"id >= {first} AND id < {first + KEYS}"

    def run(self, steps: int) -> None:
        draw = random.Random(self.first)
        for step in range(steps):
            rest = draw.randrange(5)
            if step % 3 == 0:
                self.append(self.next, self.next + 20)
                self.model |= dict.fromkeys(range(self.next, self.next + 20), 0)
                self.next += 20
            elif step % 3 == 1:
                self.delete(f"{self.own} AND id % 5 = {rest}")
                self.model = {key: value for key, value in self.model.items() if key % 5 != rest}
            else:
                self.update(f"{self.own} AND id % 5 = {rest}")
                self.model = {key: value + (key % 5 == rest) for key, value in self.model.items()}

    def append(self, first: int, end: int) -> None:
        lance_spark.open(self.uri).append(rows(first, end))

    def delete(self, condition: str) -> None:
        lance_spark.open(self.uri).delete(condition)

    def update(self, condition: str) -> None:
        updated = lance_spark.open(self.uri).update({"v": "v + 1"}, condition)
        # A compaction gives up if the others are always first.
        with suppress(CommitConflictError):
            updated.compact(target_rows_per_fragment=50)


class SparkWriter(Writer):
    def __init__(self, uri: str, first: int, spark: SparkSession) -> None:
        super().__init__(uri, first)
        self.sql, self.name = spark.sql, f"lance.`{uri}`"

    def append(self, first: int, end: int) -> None:
        source = f"(SELECT id, 0L AS v FROM range({first}, {end}, 1, 2))"
        self.sql(f"MERGE INTO {self.name} t USING {source} s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")

    def delete(self, condition: str) -> None:
        self.sql(f"DELETE FROM {self.name} WHERE {condition}")

    def update(self, condition: str) -> None:
        self.sql(f"UPDATE {self.name} SET v = v + 1 WHERE {condition}")


class ReferenceWriter(Writer):
    def append(self, first: int, end: int) -> None:
        lance.write_dataset(rows(first, end), self.uri, mode="append")

    def delete(self, condition: str) -> None:
        self._until_it_is_first(lambda: lance.dataset(self.uri).delete(condition))

    def update(self, condition: str) -> None:
        self._until_it_is_first(lambda: lance.dataset(self.uri).update({"v": "v + 1"}, condition))

    @staticmethod
    def _until_it_is_first(write: Callable[[], object]) -> None:
        for _ in range(50):
            try:
                write()
                return
            except OSError as error:
                if "concurrent" not in str(error):
                    raise
        raise AssertionError("others were always first")


@pytest.mark.slow
@pytest.mark.parametrize("stable_row_ids", [False, True])
def test_each_writer_finds_its_rows(spark: SparkSession, uri: str, stable_row_ids: bool) -> None:
    table = lance_spark.write(rows(9 * KEYS, 9 * KEYS + 50), uri, enable_stable_row_ids=stable_row_ids)
    table.create_scalar_index("id", "BTREE", "by_id")
    writers = [SparkWriter(uri, 0, spark), SparkWriter(uri, KEYS, spark.newSession())]
    for writer in writers:
        # Writers that are quicker than Spark make many conflicts.
        writer.sql("SET spark.sql.lance.maxStatementRuns = 50")
    everyone: list[Writer] = [*writers, Writer(uri, 2 * KEYS), ReferenceWriter(uri, 3 * KEYS)]
    try:
        all_at_once(lambda number: everyone[number].run(3 if number < 2 else 9), len(everyone))
    finally:
        spark.conf.unset("spark.sql.lance.maxStatementRuns")
    expected = [(key, 0) for key in range(9 * KEYS, 9 * KEYS + 50)]
    expected += [row for writer in everyone for row in writer.model.items()]
    expected.sort()
    for found in (lance_spark.open(uri).to_table(), lance.dataset(uri).to_table()):
        assert sorted(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True)) == expected
    assert sorted(map(tuple, spark.sql(f"SELECT id, v FROM lance.`{uri}`").collect())) == expected
    for key, _ in expected[::10]:
        assert lance_spark.open(uri).count_rows(f"id = {key}") == 1, key
