"""Conditions of merges: the same rows as the reference library's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.transforms.identity import Identity
from tests.partitioned.verbs import save_rows

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int32()), ("s", pa.string()), ("p", pa.int32())])


def _rows(ids: Any, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    numbers = [None if random.random() < 0.2 else int(random.integers(0, 10)) for _ in ids]
    texts = [None if random.random() < 0.2 else f"t{random.integers(0, 4)}" for _ in ids]
    return pa.table([list(ids), numbers, texts, [int(id_) % 3 for id_ in ids]], schema=SCHEMA)


def _shown(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=lambda row: int(row["id"]))


MATCHED = [
    "source.n > target.n",
    "target.n IS NULL OR source.s = 't1'",
    "source.n > 5",
    "target.s LIKE 't%'",
    "NOT (source.n > target.n)",
    "source.id % 2 = 0 AND target.n + source.n > 9",
    "true",
    "false",
]


@pytest.mark.parametrize("condition", MATCHED)
def test_rows_that_match_are_updated_on_a_condition(tmp_path: Path, condition: str) -> None:
    rows, source = _rows(range(400), 1), _rows(range(300, 500), 2)
    dataset = lance.write_dataset(rows, tmp_path / "theirs", max_rows_per_file=64)
    dataset.delete("id % 11 = 5")
    merge = dataset.merge_insert("id").when_matched_update_all(condition=condition).when_not_matched_insert_all()
    merge.execute(source)
    table = lance_spark.write(rows, tmp_path / "ours", max_rows_per_file=64).delete("id % 11 = 5")
    merged = table.merge_insert("id").when_matched_update_all(condition).when_not_matched_insert_all().execute(source)
    assert _shown(merged.to_table()) == _shown(dataset.to_table())
    assert _shown(lance.dataset(tmp_path / "ours").to_table()) == _shown(dataset.to_table())


@pytest.mark.parametrize("condition", ["n > 4", "n IS NULL", "s = 't1' AND id < 200", "true", "regexp_match(s, '2$')"])
@pytest.mark.parametrize("index", [False, True])
def test_rows_without_a_match_are_deleted_on_a_condition(tmp_path: Path, condition: str, index: bool) -> None:
    rows, source = _rows(range(400), 3), _rows(range(350, 420), 4)
    dataset = lance.write_dataset(rows, tmp_path / "theirs", max_rows_per_file=64)
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_by_source_delete(condition)
    merge.execute(source)
    table = lance_spark.write(rows, tmp_path / "ours", max_rows_per_file=64)
    if index:
        table = table.create_scalar_index("n", "btree")
    step = table.merge_insert("id").when_matched_update_all().when_not_matched_by_source_delete(condition)
    assert _shown(step.execute(source).to_table()) == _shown(dataset.to_table())


def test_partitions_and_a_source_with_some_columns(tmp_path: Path) -> None:
    rows, source = _rows(range(90), 5), _rows(range(40, 60), 6).select(["id", "n"])
    made = save_rows(create_partitioned(str(tmp_path), SCHEMA, [PartitionBy("p", ("p",), Identity())]), rows)
    merged = PartitionedDataset.of(made).merge(
        source, "id", when_not_matched=None, matched_condition="source.n > target.n AND target.p <> 1"
    )
    wanted = _shown(rows)
    for row in source.to_pylist():
        old = wanted[row["id"]]
        if row["n"] is not None and old["n"] is not None and row["n"] > old["n"] and old["p"] != 1:
            old["n"] = row["n"]
    assert _shown(merged.to_table(["id", "n", "s", "p"])) == wanted


def test_nothing_is_committed_if_no_row_fulfils_the_condition(tmp_path: Path) -> None:
    table = lance_spark.write(_rows(range(5), 7), tmp_path / "t")
    merge = table.merge_insert("id").when_matched_update_all("source.id < 0")
    assert merge.execute(_rows(range(5), 8)).version == table.version


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"matched_condition": "n > 1"}, InvalidInputError, "write target.name"),
        ({"matched_condition": "target > 1"}, InvalidInputError, "write target.name"),
        ({"matched_condition": "target.nope > 1"}, NotFoundError, "no column nope"),
        ({"matched_condition": "source.s > target.n"}, InvalidInputError, "cannot compare"),
        ({"matched_condition": "10 / source.n > 1"}, InvalidInputError, "division by zero"),
        ({"matched_condition": "true", "when_matched": None}, InvalidInputError, "belongs to an action"),
        ({"not_matched_by_source_condition": "n > 1"}, InvalidInputError, "belongs to an action"),
        (
            {"not_matched_by_source_condition": "nope > 1", "when_not_matched_by_source": "delete"},
            NotFoundError,
            "no column nope",
        ),
    ],
)
def test_conditions_that_are_refused(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    table = lance_spark.write(_rows(range(50), 9), tmp_path / "t")
    with pytest.raises(error, match=message):
        table.merge(_rows(range(50), 10), "id", **options)
    assert table.newest().version == table.version
