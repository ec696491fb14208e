"""Random histories of changes of columns and rows against a list of dictionaries, re-read by both libraries."""

from __future__ import annotations

from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_spark
from lance_spark.errors import RetryableConflictError
from lance_spark.table.operations.base import Settings
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.operations.merge import Merge
from tests.support.column_tables import checked, make

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["null", "expression", "key", "drop", "rename", "widen", "append", "delete", "update", "compact"]
        ),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=7,
)
WIDER = {pa.int8(): pa.int16(), pa.int16(): pa.int32(), pa.int32(): pa.int64(), pa.int64(): pa.decimal128(25, 0)}
Rows = list[dict[str, Any]]


def step(uri: str, rows: Rows, kind: str, number: int, turn: int) -> Rows:
    """Does one change, and says what the rows are then."""
    dataset = lance_spark.open(uri)
    names = [name for name in dataset.schema.names if name != "id"]
    name = names[number % len(names)] if names else "id"
    new = f"c{turn}"
    if kind == "null":
        dataset.add_columns(pa.field(new, pa.int8()))
        return [{**row, new: None} for row in rows]
    if kind == "expression":
        dataset.add_columns({new: f"id + {number}"})
        return [{**row, new: row["id"] + number} for row in rows]
    if kind == "key":
        dataset.add_columns((pa.table({"id": pa.array([number, 100]), new: pa.array([turn, 0], pa.int8())}), ["id"]))
        return [{**row, new: turn if row["id"] == number else None} for row in rows]
    if kind == "drop" and names:
        dataset.drop_columns([name])
        return [{key: value for key, value in row.items() if key != name} for row in rows]
    if kind == "rename" and names:
        dataset.rename_columns({name: new})
        return [{new if key == name else key: value for key, value in row.items()} for row in rows]
    if kind == "widen" and dataset.schema.field(name).type in WIDER and name != "id":
        dataset.alter_column(name, data_type=WIDER[dataset.schema.field(name).type])
    if kind == "append":
        start = max([row["id"] for row in rows], default=0) + 1
        added: Rows = [{"id": start + place, **dict.fromkeys(names, place)} for place in range(2)]
        lance.write_dataset(pa.Table.from_pylist(added, schema=dataset.schema), uri, mode="append")
        return [*rows, *added]
    if kind == "delete":
        dataset.delete(f"id % 10 = {number}")
        return [row for row in rows if row["id"] % 10 != number]
    if kind == "update" and names:
        dataset.update({name: None}, f"id = {number}")
        return [{**row, name: None} if row["id"] == number else row for row in rows]
    if kind == "compact":
        lance.dataset(uri).optimize.compact_files()
    return rows


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(STEPS, st.booleans())
def test_random_histories(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], stable: bool) -> None:
    uri = str(tmp_path_factory.mktemp("t") / "t")
    rows: Rows = [{"id": number, "v": number % 3 or None} for number in range(8)]
    schema = pa.schema([("id", pa.int64()), ("v", pa.int8())])
    table = pa.Table.from_pylist(rows, schema=schema)
    lance_spark.write(table, uri, max_rows_per_file=3, enable_stable_row_ids=stable)
    for turn, (kind, number) in enumerate(steps):
        rows = step(uri, rows, kind, number, turn)
        found = checked(uri).to_table()
        assert sorted(found.to_pylist(), key=lambda row: row["id"]) == sorted(rows, key=lambda row: row["id"])
        assert found.num_rows == 0 or found.column_names == list(rows[0])


def test_a_stale_list_of_fragments_is_refused_at_last(tmp_path_factory: pytest.TempPathFactory) -> None:
    uri = make(tmp_path_factory.mktemp("t"))
    stale = lance_spark.open(uri)
    newest = stale.delete("a = 3").manifest
    version = data_format(newest)
    assert version is not None
    merge = Merge(stale.fragments, stale.lance_schema)
    with pytest.raises(RetryableConflictError):
        merge.next_manifest(newest, Settings(9, 0, version, False))
    with pytest.raises(RetryableConflictError):
        Merge(type(stale.fragments)(), stale.lance_schema).next_manifest(newest, Settings(9, 0, version, False))
