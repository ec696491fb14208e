"""Random changes of rows against a dictionary of rows; the reference library reads and writes in between."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_spark
from lance_spark.errors import InvalidInputError

NAN = float("nan")
SCHEMA = pa.schema([("k", pa.int64()), ("f", pa.float64()), ("l", pa.list_(pa.int32())), ("s", pa.string())])
LINEAGE = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
Row = dict[str, Any]

KEYS = st.one_of(st.none(), st.integers(0, 12))
ROWS = st.fixed_dictionaries(
    {
        "k": KEYS,
        "f": st.sampled_from([None, NAN, 0.0, -0.0, 1.5, -2.0]),
        "l": st.sampled_from([None, [], [1], [None, 2]]),
        "s": st.sampled_from([None, "", "x", "ä"]),
    }
)


def is_true(value: bool | None) -> bool:
    return value is True


FILTERS: list[tuple[str, Callable[[Row], bool | None]]] = [
    ("true", lambda row: True),
    ("k < 4", lambda row: None if row["k"] is None else row["k"] < 4),
    ("k % 3 = 1", lambda row: None if row["k"] is None else row["k"] % 3 == 1),
    ("k is null", lambda row: row["k"] is None),
    ("not (f > 0)", lambda row: None if row["f"] is None else not (math.isnan(row["f"]) or row["f"] > 0)),
    ("isnan(f)", lambda row: row["f"] is not None and math.isnan(row["f"])),
    ("s = 'x' or k = 2", lambda row: row["s"] == "x" or row["k"] == 2),
    ("k > 1000", lambda row: False),
]
VALUES: list[tuple[dict[str, Any], Callable[[Row], Row]]] = [
    ({"s": "'new'"}, lambda row: {"s": "new"}),
    (
        {"k": "k + 3", "f": "k"},
        lambda row: {"k": plus(row["k"], 3), "f": None if row["k"] is None else float(row["k"])},
    ),
    ({"l": [7, None], "s": "NULL"}, lambda row: {"l": [7, None], "s": None}),
    ({"l": []}, lambda row: {"l": []}),
    ({"k": None, "f": NAN}, lambda row: {"k": None, "f": NAN}),
    ({"s": "upper(coalesce(s, 'none'))"}, lambda row: {"s": "NONE" if row["s"] is None else row["s"].upper()}),
]


def plus(value: int | None, other: int) -> int | None:
    return None if value is None else value + other


@dataclass
class Model:
    """Rows by row id, each with the versions that created and last changed it."""

    rows: dict[int, Row] = field(default_factory=dict)
    next_id: int = 0
    version: int = 0

    def insert(self, rows: list[Row]) -> None:
        for row in rows:
            self.rows[self.next_id] = {**row, "created": self.version, "updated": self.version}
            self.next_id += 1

    def change(self, chosen: list[int], change: Callable[[Row], Row]) -> None:
        for number in chosen:
            self.rows[number] = {**self.rows[number], **change(self.rows[number]), "updated": self.version}

    def matching(self, condition: Callable[[Row], bool | None]) -> list[int]:
        return [number for number, row in self.rows.items() if is_true(condition(row))]


def shown(row: Row) -> str:
    """Tells NaN from null and 0.0 from -0.0."""
    return repr([row[name] for name in SCHEMA.names])


def table(rows: list[Row], columns: list[str] | None = None) -> pa.Table:
    made = pa.Table.from_pylist(rows, schema=SCHEMA)
    return made if columns is None else made.select(columns)


class Run:
    """One history of one table."""

    def __init__(self, data: st.DataObject, uri: str, stable: bool) -> None:
        self.draw = data.draw
        self.uri = uri
        self.stable = stable
        self.model = Model(version=1)
        rows = self.draw(st.lists(ROWS, min_size=1, max_size=20))
        lance_spark.write(table(rows), uri, enable_stable_row_ids=stable, max_rows_per_file=7)
        self.model.insert(rows)

    def append(self) -> bool:
        rows = self.draw(st.lists(ROWS, min_size=1, max_size=5))
        lance_spark.write(table(rows), self.uri, mode="append")
        self.model.insert(rows)
        return True

    def delete(self) -> bool:
        sql, condition = self.draw(st.sampled_from(FILTERS[1:]))
        lance_spark.open(self.uri).delete(sql)
        deleted = self.model.matching(condition)
        for number in deleted:
            del self.model.rows[number]
        return bool(deleted)

    def update(self) -> bool:
        sql, condition = self.draw(st.sampled_from(FILTERS))
        values, change = self.draw(st.sampled_from(VALUES))
        lance_spark.open(self.uri).update(values, sql)
        chosen = self.model.matching(condition)
        self.model.change(chosen, change)
        return bool(chosen)

    def merge(self) -> bool:
        source = self.draw(st.lists(ROWS, max_size=8))
        columns = self.draw(st.sampled_from([["k", "f", "l", "s"], ["s", "k"], ["k"]]))
        matched, inserts, by_source = self.draw(
            st.sampled_from(
                [
                    ("update", "insert", None),
                    ("update", "insert", "delete"),
                    ("delete", "insert", None),
                    ("update", None, None),
                    (None, "insert", None),
                    ("update", None, "delete"),
                    (None, None, "delete"),
                ]
            )
        )
        model = self.model
        keys = [row["k"] for row in source]
        present = {row["k"] for row in model.rows.values()} - {None}
        do = {"when_matched": matched, "when_not_matched": inserts, "when_not_matched_by_source": by_source}
        if matched is not None and any(key in present and keys.count(key) > 1 for key in keys):
            with pytest.raises(InvalidInputError, match="several rows"):
                lance_spark.open(self.uri).merge(table(source, columns), "k", **do)
            return False
        lance_spark.open(self.uri).merge(table(source, columns), "k", **do)
        given = {row["k"]: {name: row[name] for name in columns} for row in source if row["k"] is not None}
        matching = model.matching(lambda row: row["k"] in given)
        others = model.matching(lambda row: row["k"] not in given)
        if matched == "update":
            model.change(matching, lambda row: given[row["k"]])
        deleted = (matching if matched == "delete" else []) + (others if by_source == "delete" else [])
        for number in deleted:
            del model.rows[number]
        new = [row for row in source if row["k"] not in present] if inserts else []
        model.insert([{name: row[name] if name in columns else None for name in SCHEMA.names} for row in new])
        return bool(deleted or new or (matched == "update" and matching))

    def reference_deletes(self) -> bool:
        lance.dataset(self.uri).delete("k % 5 = 4")
        for number in self.model.matching(lambda row: row["k"] is not None and row["k"] % 5 == 4):
            del self.model.rows[number]
        return True

    def reference_updates(self) -> bool:
        chosen = self.model.matching(lambda row: row["k"] is not None and row["k"] % 4 == 2)
        if not chosen:
            return False
        lance.dataset(self.uri).update({"s": "'theirs'"}, where="k % 4 = 2")
        self.model.change(chosen, lambda row: {"s": "theirs"})
        return True

    def compact(self) -> bool:
        if self.draw(st.booleans()):
            lance.dataset(self.uri).optimize.compact_files(materialize_deletions_threshold=0.0)
        else:
            lance_spark.open(self.uri).compact(materialize_deletions_threshold=0.0)
        self.model.version = lance_spark.open(self.uri).version
        return False

    def step(self) -> None:
        model = self.model
        before = lance_spark.open(self.uri).version
        model.version = before + 1
        steps = [self.append, self.delete, self.update, self.merge, self.reference_deletes, self.reference_updates]
        changes = self.draw(st.sampled_from([*steps, self.update, self.merge, self.compact]))()
        made = lance_spark.open(self.uri).version
        if changes:
            assert made == before + 1
        self.check()

    def check(self) -> None:
        reference = lance.dataset(self.uri)
        reference.validate()
        columns = [*SCHEMA.names, *(LINEAGE if self.stable else [])]
        mine = lance_spark.open(self.uri).to_table(columns=columns).to_pylist()
        committed = reference.scanner(columns=columns).to_table().to_pylist()
        assert [repr(row) for row in mine] == [repr(row) for row in committed]
        assert sorted(map(shown, mine)) == sorted(map(shown, self.model.rows.values()))
        if self.stable:
            found = {row["_rowid"]: (shown(row), *(row[name] for name in LINEAGE[1:])) for row in mine}
            expected = {number: (shown(row), row["created"], row["updated"]) for number, row in self.model.rows.items()}
            assert len(found) == len(mine)
            assert found == expected


@pytest.mark.slow
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_random_changes(stable: bool, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = Run(data, f"{folder}/t", stable)
        for _ in range(data.draw(st.integers(1, 8))):
            run.step()
