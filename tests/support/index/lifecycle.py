"""Histories of tables with an index of each kind."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import lance
import pyarrow as pa
from lance.indices import IndexConfig

import lance_spark
from lance_spark._proto import table_pb2
from lance_spark.table.manifests.index_section import parse_indices
from tests.index.comparisons import ID, append, ids, write

WORDS = ["alpha", "beta", "gamma", None, "alphabet", ""]


INDEXES: dict[str, tuple[str, str | IndexConfig]] = {
    "tree": ("x", IndexConfig("btree", {"zone_size": 16})),
    "map": ("k", "BITMAP"),
    "zones": ("y", IndexConfig("zonemap", {"rows_per_zone": 10})),
    "bloom": ("z", IndexConfig("bloomfilter", {"number_of_items": 20, "probability": 0.01})),
    "grams": ("s", "NGRAM"),
    "labels": ("l", "LABEL_LIST"),
}


CONDITIONS: tuple[str | tuple[str, str], ...] = (
    "x = 17",
    "x < 9 OR x IS NULL",
    "NOT (x >= 5)",
    "k = 'beta'",
    "k <> 'alpha' AND x < 30",
    "k IS NULL",
    "y BETWEEN 40 AND 55",
    "y IS NULL",
    "z = 33",
    "z IN (1, 90, 4000)",
    "contains(s, 'alpha')",
    "s LIKE '%amm%'",
    ("array_contains(l, 3)", "array_has(l, 3)"),
    ("NOT array_contains(l, 3)", "NOT array_has(l, 3)"),
    "x < 40 AND y > 20 AND z <> 7 AND contains(s, 'bet')",
)


def rows(num_rows: int, seed: int) -> dict[str, pa.Array]:
    draw = random.Random(seed)

    def numbers() -> pa.Array:
        return pa.array([draw.choice([None, draw.randrange(100)]) if draw.random() < 0.2 else draw.randrange(100)
                         for _ in range(num_rows)], pa.int64())  # fmt: skip

    words = pa.array([draw.choice(WORDS) for _ in range(num_rows)], pa.string())
    lists = pa.array([draw.choice([None, [], [3], [1, 3], [2]]) for _ in range(num_rows)], pa.list_(pa.int64()))
    return {"x": numbers(), "k": words, "y": numbers(), "z": numbers(), "s": words, "l": lists}


def indexed(uri: str, *, stable_row_ids: bool = False) -> None:
    dataset = write(uri, rows(240, 1), rows_per_file=80, stable_row_ids=stable_row_ids)
    for name, (column, config) in INDEXES.items():
        dataset.create_scalar_index(column, config, name=name)


class History:
    """Random changes by both libraries."""

    def __init__(self, uri: str, seed: int) -> None:
        self._uri = uri
        self._draw = random.Random(seed)
        self._next_id = 10_000
        self.steps: list[str] = []

    def step(self) -> None:
        change: Callable[[], object] = self._draw.choice(
            [
                self.append,
                self.delete,
                self.own_delete,
                self.update,
                self.own_update,
                self.merge,
                self.optimize_indices,
                self.own_optimize_indices,
                self.own_build,
                self.compact,
                self.own_compact,
            ]
        )
        self.steps.append(change.__name__)
        change()

    def _some(self) -> str:
        return f"id % 17 = {self._draw.randrange(17)}"

    def append(self) -> None:
        append(self._uri, rows(40, self._draw.randrange(1000)), first_id=self._next_id)
        self._next_id += 1000

    def delete(self) -> None:
        lance.dataset(self._uri).delete(self._some())

    def own_delete(self) -> None:
        lance_spark.open(self._uri).delete(self._some())

    def update(self) -> None:
        column, value = self._draw.choice([("x", "17"), ("k", "'beta'"), ("y", "50"), ("z", "33"), ("s", "'gamma'")])
        lance.dataset(self._uri).update({column: value}, where=self._some())

    def own_update(self) -> None:
        column, value = self._draw.choice([("x", "17"), ("k", "'beta'"), ("y", "50"), ("z", "33"), ("s", "'gamma'")])
        lance_spark.open(self._uri).update({column: value}, self._some())

    def merge(self) -> None:
        known = ids(lance.dataset(self._uri).to_table(columns=[ID]))
        chosen = self._draw.sample(known, min(10, len(known)))
        new = pa.table({ID: pa.array(chosen, pa.int64()), **rows(len(chosen), self._draw.randrange(1000))})
        lance.dataset(self._uri).merge_insert(ID).when_matched_update_all().execute(new)

    def optimize_indices(self) -> None:
        lance.dataset(self._uri).optimize.optimize_indices(num_indices_to_merge=self._draw.choice([0, 1, 9]))

    def own_optimize_indices(self) -> None:
        lance_spark.open(self._uri).optimize_indices(num_indices_to_merge=self._draw.choice([0, 1, 9]))

    def own_build(self) -> None:
        name = self._draw.choice(sorted(INDEXES))
        column, config = INDEXES[name]
        kind = config if isinstance(config, str) else config.index_type
        lance_spark.open(self._uri).create_scalar_index(column, kind, name, num_segments=self._draw.choice([1, 2]))

    def compact(self) -> None:
        lance.dataset(self._uri).optimize.compact_files(target_rows_per_fragment=self._draw.choice([100, 1000]))

    def own_compact(self) -> None:
        lance_spark.open(self._uri).compact()


def changed_metadata(uri: str, change: Callable[[table_pb2.IndexMetadata], None]) -> lance_spark.Dataset:
    """The table as if its index metadata were other ones."""
    dataset = lance_spark.open(uri)
    section = table_pb2.IndexSection()
    for index in parse_indices(dataset.manifest.index_section):
        message = table_pb2.IndexMetadata()
        message.CopyFrom(index.message)
        change(message)
        section.indices.append(message)
    return type(dataset)(dataset.location, replace(dataset.manifest, index_section=section.SerializeToString()))
