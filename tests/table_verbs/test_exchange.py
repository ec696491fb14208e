"""Rows of tables of both kinds go to pandas, Arrow and DuckDB, and tables show themselves in notebooks."""

from __future__ import annotations

from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_spark.errors import InvalidInputError, NotFoundError
from tests.table_verbs.kinds import ROWS, Kind, table_of


def as_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=str)


def test_duckdb_reads_the_table_and_a_scanner(dataset: Any) -> None:
    assert duckdb.sql("SELECT count(*), sum(v) FROM dataset").fetchall() == [(5, 130)]
    assert duckdb.sql("SELECT count(*), sum(v) FROM dataset").fetchall() == [(5, 130)]
    chosen = dataset.scanner(["id"], "v >= 40")
    assert chosen.count_rows() == 2
    assert sorted(duckdb.sql("SELECT id FROM chosen").fetchall()) == [(4,), (5,)]


def test_arrow_reads_the_table_as_a_stream(dataset: Any) -> None:
    assert as_rows(pa.table(dataset)) == as_rows(dataset.to_table())
    assert pa.RecordBatchReader.from_stream(dataset).schema == dataset.to_table().schema


def test_pandas_gets_columns_and_rows_of_a_filter(dataset: Any) -> None:
    frame = dataset.to_pandas(["id", "v"], "id <= 2")
    assert list(frame.columns) == ["id", "v"]
    assert sorted(frame["id"]) == [1, 2]
    assert frame["v"].isna().sum() == 1
    typed = dataset.to_pandas(["v"], types_mapper={pa.int32(): pd.Int32Dtype()}.get)
    assert str(typed.dtypes["v"]) == "Int32"


def test_batches_are_those_of_scan(dataset: Any) -> None:
    batches = list(dataset.to_batches(["id"], "id > 1", batch_size=1))
    assert sorted(value for batch in batches for value in batch["id"].to_pylist()) == [2, 3, 4, 5]
    assert max(batch.num_rows for batch in batches) == 1


def test_head_returns_the_first_rows(dataset: Any) -> None:
    assert dataset.head(2).equals(dataset.to_table(limit=2))
    assert dataset.head(100, ["id"]).num_rows == 5
    assert dataset.head(0).num_rows == 0


def test_sample_returns_different_rows(dataset: Any) -> None:
    drawn = dataset.sample(3, seed=1)
    assert drawn.num_rows == len(set(drawn["id"].to_pylist())) == 3
    assert set(as_rows(drawn)) <= set(ROWS)
    assert drawn.equals(dataset.sample(3, seed=1))
    assert as_rows(dataset.sample(100)) == sorted(ROWS, key=str)
    in_order = dataset.sample(4, ["id"], seed=3, in_order=True)["id"].to_pylist()
    assert in_order == [value for value in dataset.to_table(["id"])["id"].to_pylist() if value in in_order]
    assert dataset.sample(0).num_rows == 0
    with pytest.raises(InvalidInputError, match="0 or more"):
        dataset.sample(-1)
    with pytest.raises(NotFoundError, match="nothing"):
        dataset.sample(1, ["nothing"])


def test_length_is_the_number_of_rows_and_an_empty_table_is_true(kind: Kind, dataset: Any) -> None:
    assert len(dataset) == 5
    empty = kind.create()
    assert len(empty) == 0
    assert empty
    assert empty.sample(3).num_rows == empty.head().num_rows == 0
    assert pa.table(empty).schema == empty.to_table().schema


def test_scanner_counts_and_projects(dataset: Any) -> None:
    scanner = dataset.scanner(["v", "id"], "id > 1", limit=2)
    assert scanner.projected_schema.names == ["v", "id"]
    assert scanner.count_rows() == scanner.to_table().num_rows == len(scanner.to_pandas()) == 2
    assert dataset.scanner(filter="id > 1").count_rows() == 4
    assert dataset.scanner(["id"], with_row_id=True).projected_schema.names == ["id", "_rowid"]
    assert scanner.to_reader().read_all().equals(scanner.to_table())


def test_html_escapes_names(kind: Kind) -> None:
    table = table_of(*ROWS)
    made = kind.create(*ROWS)
    shown = made._repr_html_()
    assert "<td>id</td><td>int64</td>" in shown
    assert "version=" in shown
    odd = made.add_columns(pa.field("<b>&", pa.int64()))
    assert "<td>&lt;b&gt;&amp;</td>" in odd._repr_html_()
    assert "<b>" not in odd._repr_html_()
    assert table.num_rows == len(made)


def test_filter_of_another_kind_is_refused(dataset: Any) -> None:
    for read in (dataset.to_table, dataset.count_rows, dataset.to_pandas):
        with pytest.raises(
            InvalidInputError, match="the filter is a pyarrow Expression; write the condition as SQL text"
        ):
            read(filter=pc.field("id") > 1)
