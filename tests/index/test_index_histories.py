"""Random histories of tables whose columns of all types have indexes of all kinds, by either library.

After each step random conditions are asked with indexes and without; both must give the rows for which the conditions
hold in plain Python (`column_models`). The reference library must find with these indexes what it finds without them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.indices import IndexConfig

import lance_spark
from tests.index.column_models import (
    ColumnModel,
    Condition,
    Value,
    all_of,
    any_of,
    column_models,
    opposite,
)
from tests.support.history_seeds import seeds
from tests.support.two_library_history import TwoLibraryHistory

Row = tuple[Value, ...]
RowTest = Callable[[int, Row], bool | None]
STEPS = {
    "append": 4,
    "delete": 2,
    "delete_where": 1,
    "update_where": 3,
    "other_column": 1,
    "merge": 2,
    "rewrite": 2,
    "restore": 1,
    "compact": 3,
    "optimize": 4,
    "build": 3,
    "drop_index": 1,
    "replace_column": 1,
    "rename": 1,
    "overwrite": 1,
    "clone": 1,
    "make_branch": 1,
    "clean_up": 1,
}


class History(TwoLibraryHistory[Row]):
    """A table of two columns of random types with random indexes, and the rows that it must have."""

    appended, merged, target_rows, indices_to_merge = 60, 30, 150, (0, 1, 9)

    def __init__(self, uri: str, seed: int) -> None:
        self.draw = random.Random(seed)
        super().__init__(uri, seed, stable=self.draw.random() < 0.4)
        self.branch: str | None = None
        self._next_name = 0
        self._columns_of: dict[int, list[tuple[ColumnModel, str]]] = {}
        self._has_lost = False
        self._zone_mapped: set[str] = set()
        self._file_version = self.draw.choice(["2.0", "2.1", "2.2"])
        self._new_table()

    def _new_name(self) -> str:
        self._next_name += 1
        return f"c{self._next_name}"

    def _new_table(self) -> None:
        self.columns = self._new_columns(2)
        self._is_clustered = self.draw.random() < 0.4

    def _new_columns(self, count: int) -> list[ColumnModel]:
        names = [self._new_name() for _ in range(count)]
        return column_models(self.draw, names, null_structs=self._file_version != "2.0")

    @property
    def ours(self) -> Any:
        return lance_spark.open(self.uri, branch=self.branch)

    @property
    def theirs(self) -> Any:
        dataset = lance.dataset(self.uri)
        return dataset if self.branch is None else dataset.checkout_version((self.branch, None))

    def values(self, count: int) -> tuple[list[Row], pa.Array, str]:
        raise NotImplementedError("there are several columns")

    def new(self, count: int, ids: list[int] | None = None) -> pa.Table:
        if ids is None:
            ids = list(range(self._next_id, self._next_id + count))
            self._next_id += count
        rows = [tuple(column.value() for column in self.columns) for _ in range(count)]
        if self._is_clustered:
            rows.sort(key=lambda row: (isinstance(row[0], int), row[0] if isinstance(row[0], int) else 0))
        self.rows.update(zip(ids, rows, strict=True))
        arrays = [
            column.array(list(values)) for column, values in zip(self.columns, zip(*rows, strict=True), strict=True)
        ]
        schema = pa.schema(
            [pa.field("id", pa.int64()), *(column.field for column in self.columns), pa.field("n", pa.int64())]
        )
        return pa.Table.from_arrays([pa.array(ids, pa.int64()), *arrays, pa.array([0] * count)], schema=schema)

    def begin(self, num_rows: int, rows_per_file: int, mode: str = "create") -> None:
        table = self.new(num_rows)
        if mode == "create":
            options: Any = {"enable_stable_row_ids": self._stable}
        else:
            options = {"mode": mode}
        version = {"file_format_version": self._file_version}
        if self.draw.random() < 0.5 or self._file_version == "2.0" or self.branch is not None:
            lance_spark.write(table, self.uri, max_rows_per_file=rows_per_file, **version, **options)
        else:
            lance.write_dataset(
                table, self.uri, max_rows_per_file=rows_per_file, data_storage_version=self._file_version, **options
            )
        self._has_lost = False
        for number in range(len(self.columns)):
            self.build_on(number)
            if self.draw.random() < 0.4:
                self.build_on(number)
        self._remember()

    def _remember(self) -> None:
        super()._remember()
        self._columns_of[self.ours.version] = [(column, column.name) for column in self.columns]

    # Steps, of a library that is chosen at random.

    def rebuild(self, table: Any) -> None:
        self.build(table)

    def append(self, table: Any) -> None:
        if len(self.rows) > 900:
            return
        rows = self.new(self.appended)
        if isinstance(table, lance.LanceDataset):
            lance.write_dataset(rows, table, mode="append", max_rows_per_file=40)
        else:
            table.append(rows)

    def optimize(self, table: Any) -> None:
        if any(item["type"] == "Json" for item in self.ours.list_indices()):
            # The reference library (14.0.2) extends no JSON index over bitmap or zonemap.
            table = self.ours
        super().optimize(table)

    def build(self, table: Any) -> None:
        self.build_on(self.draw.randrange(len(self.columns)), table)

    def build_on(self, number: int, table: Any = None) -> None:
        """Builds an index of a random kind on a column."""
        column = self.columns[number]
        kind, parameters = self.draw.choice(list(column.kinds))
        name = f"{column.name}_{kind}_{parameters.get('path', '')}".replace(" ", "_")
        if table is None:
            table = self.ours if self.draw.random() < 0.5 else self.theirs
        if self._stable and parameters.get("target_index_type") == "btree":
            parameters = {**parameters, "target_index_type": "bitmap"}
        self.steps.append(f"{name} {parameters} by {type(table).__name__}")
        if isinstance(table, lance.LanceDataset):
            plain = kind in ("BITMAP", "NGRAM", "LABEL_LIST", "RTREE")
            table.create_scalar_index(column.name, kind if plain else IndexConfig(kind.lower(), parameters), name=name)
        else:
            more = {"num_segments": self.draw.choice([1, 1, 3])} if self.draw.random() < 0.9 else {"train": False}
            self.steps[-1] += f" {more}"
            table.create_scalar_index(column.name, kind, name, **parameters, **more)

    def drop_index(self, table: Any) -> None:
        names = sorted({item["name"] for item in self.ours.list_indices()} - {"__lance_frag_reuse"})
        if names:
            table.drop_index(self.draw.choice(names))

    def some_rows(self) -> tuple[str, set[int]]:
        """A condition, and the ids of the rows for which it is true: less than a half."""
        sql, test, _ = self.condition(1)
        found = {id_ for id_, row in self.rows.items() if test(id_, row)}
        if len(found) < len(self.rows) / 2:
            return sql, found
        rest = self.draw.randrange(7)
        return f"id % 7 = {rest}", {id_ for id_ in self.rows if id_ % 7 == rest}

    def delete_where(self, _: Any) -> None:
        sql, found = self.some_rows()
        self.steps[-1] += f" {sql}"
        self.ours.delete(sql)
        self.rows = {id_: row for id_, row in self.rows.items() if id_ not in found}

    def update_where(self, _: Any) -> None:
        number = self.draw.randrange(len(self.columns))
        column = self.columns[number]
        value = column.value()
        if column.field.type == pa.json_() or pa.types.is_struct(column.field.type):
            return
        sql, found = self.some_rows()
        self.steps[-1] += f" {column.name} {sql}"
        self.ours.update({column.name: column.array([value])[0]}, sql)
        for id_ in found:
            row = list(self.rows[id_])
            row[number] = value
            self.rows[id_] = tuple(row)

    def rewrite(self, table: Any) -> None:
        """A merge of one column, which the reference library rewrites where it is."""
        number = self.draw.randrange(len(self.columns))
        ids = self.some(self.merged)
        before = {id_: self.rows[id_] for id_ in ids}
        new = self.new(len(ids), ids).select(["id", self.columns[number].name])
        for id_, row in before.items():
            merged = list(row)
            merged[number] = self.rows[id_][number]
            self.rows[id_] = tuple(merged)
        table.merge_insert("id").when_matched_update_all().execute(new)

    def merge(self, table: Any) -> None:
        """An upsert."""
        known = self.some(self.merged)
        added = list(range(self._next_id, self._next_id + 10))
        self._next_id += 10
        new = self.new(len(known) + 10, known + added)
        table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(new)

    def restore(self, table: Any) -> None:
        version = int(self.draw.choice(list(self._known)[-3:]))
        if isinstance(table, lance.LanceDataset) and self.branch is None:
            lance.dataset(self.uri, version=version).restore()  # type: ignore[no-untyped-call]
        else:
            self.ours.restore(version)
        self.rows = dict(self._known[version])
        self.columns = [column for column, _ in self._columns_of[version]]
        for column, name in self._columns_of[version]:
            column.name = name

    def compact(self, table: Any) -> None:
        defer = not self._stable and self.draw.random() < 0.5
        self.steps[-1] += ", deferred" if defer else ""
        types = {item["type"] for item in self.ours.list_indices()}
        if self.branch is not None or "+" in self.uri or (self._stable and "Json" in types):
            # The reference library (14.0.2) notes its new index files as files of the base, where it finds none. And
            # where rows keep their ids it says that zone maps of JSON cover fragments of which they have no zones.
            table = self.ours
        # An immediate compaction of it after a deferred one loses rows of its indexes.
        names = {item["name"] for item in self.ours.list_indices()}
        self._has_lost |= not defer and isinstance(table, lance.LanceDataset) and "__lance_frag_reuse" in names
        table.optimize.compact_files(target_rows_per_fragment=self.draw.choice([100, 1000]), defer_index_remap=defer)

    def replace_column(self, table: Any) -> None:
        """Another column in place of one."""
        number = self.draw.randrange(len(self.columns))
        old = self.columns[number]
        (column,) = self._new_columns(1)
        columns = [*self.columns[:number], column, *self.columns[number + 1 :]]
        ids = sorted(self.rows)
        values = [column.value() for _ in ids]
        new = pa.Table.from_arrays(
            [pa.array(ids, pa.int64()), column.array(values)],
            schema=pa.schema([pa.field("id", pa.int64()), column.field]),
        )
        self.ours.drop_columns([old.name])
        self.ours.add_columns((new, ["id"]))
        self.columns = columns
        for id_, value in zip(ids, values, strict=True):
            row = list(self.rows[id_])
            row[number] = value
            self.rows[id_] = tuple(row)
        self._remember()
        self.build_on(number)

    def rename(self, table: Any) -> None:
        column = self.draw.choice(self.columns)
        new = self._new_name()
        if isinstance(table, lance.LanceDataset):
            table.alter_columns({"path": column.name, "name": new})
        else:
            table.rename_columns({column.name: new})
        column.name = new

    def overwrite(self, _: Any) -> None:
        if self.branch is not None:
            return
        self.rows = {}
        self._new_table()
        self.begin(self.draw.choice([100, 300]), self.draw.choice([40, 100]), "overwrite")

    def clone(self, table: Any) -> None:
        """The history goes on in a clone, which reads the indexes of its base."""
        uri = f"{self.uri}+"
        if isinstance(table, lance.LanceDataset):
            table.shallow_clone(uri, self.ours.version)
        else:
            table.shallow_clone(uri)
        self.uri, self.branch = uri, None
        self._known = {}

    def make_branch(self, table: Any) -> None:
        if self.branch is not None:
            return
        name = self._new_name()
        table.create_branch(name)
        self.branch = name
        self._known = {}

    def clean_up(self, _: Any) -> None:
        if self.branch is None and "+" not in self.uri:
            self.ours.cleanup(keep_versions=1, delete_unverified=True)
            self._known = {}

    # What is asked.

    def condition(self, depth: int) -> tuple[str, RowTest, bool]:
        """A condition, what it is for a row, and whether the reference library reads the same text."""
        choice = self.draw.random() if depth else 0
        if choice < 0.5:
            return self._leaf()
        sql, test, is_shared = self.condition(depth - 1)
        if choice < 0.6:
            return f"NOT ({sql})", (lambda id_, row: opposite(test(id_, row))), is_shared
        other_sql, other, other_is_shared = self.condition(depth - 1)
        word, joined = ("AND", all_of) if choice < 0.85 else ("OR", any_of)
        return (
            f"({sql}) {word} ({other_sql})",
            lambda id_, row: joined([test(id_, row), other(id_, row)]),
            is_shared and other_is_shared,
        )

    def _leaf(self) -> tuple[str, RowTest, bool]:
        number = self.draw.randrange(len(self.columns) + 1)
        if number == len(self.columns):
            bound = self.draw.randrange(self._next_id)
            return f"id >= {bound}", (lambda id_, _: id_ >= bound), True
        column = self.columns[number]
        found: Condition = column.condition()
        # By zone maps the reference library (14.0.2) loses NaNs: those of zones without numbers, and negative ones.
        loses_nan = pa.types.is_floating(column.field.type) and column.name in self._zone_mapped
        return found.sql, (lambda _, row: found.test(row[number])), found.is_shared and not loses_nan

    def check(self, num_conditions: int) -> None:
        dataset = self.ours
        self._check_rows(dataset)
        indexes = dataset.list_indices()
        self._zone_mapped = {item["fields"][0] for item in indexes if item["type"] == "ZoneMap"}
        # Where rows keep their ids the reference library (14.0.2) finds them under the values of older segments too.
        has_stale = self._stable and len({item["name"] for item in indexes}) < len(indexes)
        asks_reference = not (self._has_lost or has_stale)
        for _ in range(num_conditions):
            sql, test, is_shared = self.condition(2)
            expected = sorted(id_ for id_, row in self.rows.items() if test(id_, row))
            scanned = dataset.to_table(["id"], sql, use_scalar_index=False)["id"].to_pylist()
            assert sorted(scanned) == expected, f"scan of {sql}"
            assert dataset.to_table(["id"], sql)["id"].to_pylist() == scanned, f"{sql}\n{dataset.explain(sql)}"
            assert dataset.count_rows(sql) == len(expected), sql
            if is_shared and asks_reference:
                self._check_reference(sql)

    def _check_rows(self, dataset: Any) -> None:
        columns = [column for column in self.columns if column.field.type != pa.json_()]
        found = dataset.to_table(["id", *(column.name for column in columns)]).sort_by("id")
        assert found["id"].to_pylist() == sorted(self.rows)
        for number, column in enumerate(self.columns):
            if column in columns:
                expected = column.array([self.rows[id_][number] for id_ in sorted(self.rows)])
                assert repr(found[column.name].to_pylist()) == repr(expected.to_pylist()), column.name

    def _check_reference(self, sql: str) -> None:
        dataset = self.theirs
        try:
            scanned = dataset.to_table(["id"], sql, use_scalar_index=False)["id"].to_pylist()
        except (OSError, ValueError, RuntimeError):
            return
        assert sorted(dataset.to_table(["id"], sql)["id"].to_pylist()) == sorted(scanned), f"reference: {sql}"


class LargerHistory(History):
    """Of tables of several pages of BTREE, of 4,096 rows each, and several zones."""

    appended, merged, target_rows = 3_000, 1_500, 20_000


@pytest.mark.parametrize("seed", seeds(4))
def test_random_history_gives_the_rows_of_a_scan(tmp_path: Path, seed: int, warnings: list[str]) -> None:
    history = History(str(tmp_path / "t"), seed)
    _check_history(history, history.draw.choice([100, 300]), history.draw.choice([40, 100]), num_steps=8)
    assert warnings == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2))
def test_random_history_of_a_larger_table_gives_the_rows_of_a_scan(
    tmp_path: Path, seed: int, warnings: list[str]
) -> None:
    history = LargerHistory(str(tmp_path / "t"), seed)
    _check_history(history, history.draw.choice([9_000, 13_000]), history.draw.choice([5_000, 20_000]), num_steps=4)
    assert warnings == []


def _check_history(history: History, num_rows: int, rows_per_file: int, num_steps: int) -> None:
    shown = [str(column.field) for column in history.columns]
    try:
        history.begin(num_rows, rows_per_file)
        history.check(5)
        for step in history.draw.choices(list(STEPS), list(STEPS.values()), k=num_steps):
            history.step(step)
            history.check(5)
    except Exception as error:
        raise AssertionError(f"{shown} after {history.steps}") from error
