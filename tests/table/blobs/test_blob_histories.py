"""Random operations of both libraries on a table with a blob column, checked against a model after each step."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.blob import blob_array
from lance.blob import blob_field as reference_field

import lance_spark
from lance_spark import blob_field
from tests.support.history_seeds import seeds

LIMITS = {"inline_size_threshold": 10, "dedicated_size_threshold": 1000, "pack_file_size_threshold": 1500}
SIZES = [0, 1, 10, 11, 200, 999, 1000, 1001, 3000]
SCHEMA = pa.schema([pa.field("id", pa.int64()), blob_field("img", **LIMITS)])
REFERENCE_SCHEMA = pa.schema([pa.field("id", pa.int64()), reference_field("img", **LIMITS)])

Rows = dict[int, bytes | None]


class History:
    """A table, and what it must hold."""

    def __init__(self, uri: str, rng: random.Random) -> None:
        self.uri = uri
        self.rng = rng
        self.next_id = 0
        self.rows = self.new_rows(5)
        lance_spark.write(self.table(self.rows), uri, enable_stable_row_ids=rng.random() < 0.5)

    @staticmethod
    def table(rows: Rows) -> pa.Table:
        return pa.table({"id": list(rows), "img": list(rows.values())}, schema=SCHEMA)

    def value(self) -> bytes | None:
        return None if self.rng.random() < 0.15 else bytes([self.rng.randrange(256)]) * self.rng.choice(SIZES)

    def new_rows(self, count: int) -> Rows:
        ids = range(self.next_id, self.next_id + count)
        self.next_id += count
        return {number: self.value() for number in ids}

    def some_ids(self) -> list[int]:
        return self.rng.sample(list(self.rows), min(3, len(self.rows)))

    def append(self) -> None:
        new = self.new_rows(self.rng.randrange(1, 6))
        limit = self.rng.choice([2, 100])
        lance_spark.write(self.table(new), self.uri, mode="append", max_rows_per_file=limit)
        self.rows |= new

    def append_by_reference(self) -> None:
        new = self.new_rows(self.rng.randrange(1, 6))
        columns = [pa.array(list(new), pa.int64()), blob_array(list(new.values()))]
        lance.write_dataset(pa.table(columns, schema=REFERENCE_SCHEMA), self.uri, mode="append")
        self.rows |= new

    def update_other_column(self) -> None:
        lance_spark.open(self.uri).update({"id": "id + 100000"}, "id % 3 = 0 AND id < 100000")
        moved = {number: number + 100_000 for number in self.rows if number % 3 == 0 and number < 100_000}
        self.rows = {moved.get(number, number): value for number, value in self.rows.items()}

    def update_blob(self) -> None:
        for number in self.some_ids()[:1]:
            self.rows[number] = self.value()
            lance_spark.open(self.uri).update({"img": self.rows[number]}, f"id = {number}")

    def merge_blobs(self) -> None:
        source = {number: self.value() for number in self.some_ids()} | self.new_rows(2)
        table = pa.table({"id": list(source), "img": pa.array(list(source.values()), pa.binary())})
        lance_spark.open(self.uri).merge(table, "id")
        self.rows |= source

    def merge_other_columns(self) -> None:
        if self.rows:
            lance_spark.open(self.uri).merge(pa.table({"id": self.some_ids()}), "id")

    def delete(self) -> None:
        divisor = self.rng.randrange(3, 7)
        lance_spark.open(self.uri).delete(f"id % {divisor} = 1")
        self.rows = {number: value for number, value in self.rows.items() if number % divisor != 1}

    def compact(self) -> None:
        lance_spark.open(self.uri).compact()

    def compact_by_reference(self) -> None:
        lance.dataset(self.uri).optimize.compact_files()

    def clean_up(self) -> None:
        lance_spark.open(self.uri).cleanup(timedelta(0))

    def check(self) -> None:
        ours = lance_spark.open(self.uri).to_table(blob_handling="all_binary")
        assert ours.num_rows == len(self.rows)
        assert dict(zip(ours["id"].to_pylist(), ours["img"].to_pylist(), strict=True)) == self.rows
        theirs = lance.dataset(self.uri).scanner(blob_handling="all_binary").to_table()
        assert dict(zip(theirs["id"].to_pylist(), theirs["img"].to_pylist(), strict=True)) == self.rows


STEPS: list[Callable[[History], None]] = [
    History.append,
    History.append_by_reference,
    History.update_other_column,
    History.update_blob,
    History.merge_blobs,
    History.merge_other_columns,
    History.delete,
    History.compact,
    History.compact_by_reference,
    History.clean_up,
]


@pytest.mark.parametrize("seed", seeds(4, one_of=2))
def test_blobs_stay_with_their_rows(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    history = History(str(tmp_path / "t"), rng)
    for _ in range(10):
        step = rng.choice(STEPS)
        step(history)
        history.check()
