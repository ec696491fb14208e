"""Rows of tables of both kinds go to pandas, Arrow and DuckDB, and tables show themselves in notebooks."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest

from lance_spark.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.expr.sql.parse import to_expr
from lance_spark.table.reading.arrow_dataset import ArrowDataset
from lance_spark.table.reading.read_verbs import ReadVerbs
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
    with pytest.raises(InvalidInputError, match="seed"):
        dataset.sample(1, seed=-1)
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
        with pytest.raises(InvalidInputError, match="the filter is a builtins int; write the condition as SQL text"):
            read(filter=1)


def test_expressions_of_pyarrow_are_filters_of_all_verbs(dataset: Any) -> None:
    large = pc.field("v") >= 40
    assert dataset.to_table(["id"], large)["id"].to_pylist() == dataset.to_table(["id"], "v >= 40")["id"].to_pylist()
    assert dataset.count_rows(large) == 2
    assert dataset.count_rows(pc.field("p") == "a") == 2
    changed = dataset.update({"v": 0}, large).delete(pc.field("id").isin([1, 2]))
    assert as_rows(changed.to_table()) == as_rows(table_of((3, "b", 30), (4, "b", 0), (5, None, 0)))


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """(columns, filter) of each scan."""
    seen: list[tuple[Any, Any]] = []
    scan = ReadVerbs.scan

    def recorded(self: ReadVerbs, columns: Any = None, filter: Any = None, *arguments: Any, **named: Any) -> Any:
        seen.append((columns, None if filter is None else to_expr(filter).to_sql()))
        return scan(self, columns, filter, *arguments, **named)

    monkeypatch.setattr(ReadVerbs, "scan", recorded)
    return seen


def test_duckdb_hands_columns_and_filters_down(dataset: Any, scans: list[tuple[Any, Any]]) -> None:
    arrow = dataset.to_arrow_dataset()  # noqa: F841
    assert sorted(duckdb.sql("SELECT id FROM arrow WHERE v >= 40").fetchall()) == [(4,), (5,)]
    assert set(scans[-1][0]) == {"id", "v"}
    assert "v >= 40" in scans[-1][1]
    assert duckdb.sql("SELECT count(*) FROM arrow").fetchall() == [(5,)]


def test_polars_hands_columns_and_filters_down(dataset: Any, scans: list[tuple[Any, Any]]) -> None:
    pl = pytest.importorskip("polars", reason="polars is not installed")
    frame = dataset.to_polars().filter(pl.col("v") >= 40).select("id").collect()
    assert sorted(frame["id"].to_list()) == [4, 5]
    assert set(scans[-1][0]) == {"id", "v"}
    assert scans[-1][1] == "v >= 40"


def test_missing_polars_is_one_sentence(monkeypatch: pytest.MonkeyPatch, dataset: Any) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(UnsupportedFeatureError, match="pip install polars"):
        dataset.to_polars()


def test_arrow_dataset_reads_and_refuses_what_it_cannot(dataset: Any) -> None:
    arrow = dataset.to_arrow_dataset()
    small = pc.field("id") < 3
    assert arrow.schema == dataset.schema
    assert as_rows(arrow.to_table(filter=small)) == as_rows(dataset.to_table(filter="id < 3"))
    assert arrow.count_rows(small) == sum(batch.num_rows for batch in arrow.to_batches(filter=small)) == 2
    assert arrow.head(1, ["id"]).equals(dataset.head(1, ["id"]))
    assert pickle.loads(pickle.dumps(arrow)).count_rows() == 5
    public = {name for name in dir(pads.Dataset) if not name.startswith("_")}
    assert public == {name for name in public if name in vars(ArrowDataset)}
    for refused in (arrow.get_fragments, lambda: arrow.filter(small), lambda: arrow.partition_expression):
        with pytest.raises(UnsupportedFeatureError, match="does not work on a table"):
            refused()
