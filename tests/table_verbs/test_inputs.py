"""Rows from every library that hands out tables go into tables of both kinds, by every verb that takes rows."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import lance
import narwhals
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError
from tests.table_verbs.kinds import ROWS, SCHEMA, Kind, Row, content, table_of

NEW: list[Row] = [(6, "a", 60), (7, "c", None), (8, None, 80)]


def ours(rows: pa.Table) -> lance_spark.Dataset:
    return lance_spark.write(rows, f"memory://inputs-{id(rows)}", mode="overwrite")


def relation(rows: pa.Table) -> Any:
    connection = duckdb.connect()
    return connection.from_arrow(rows)


INPUTS: dict[str, Callable[[pa.Table], Any]] = {
    "dataset of pyarrow": pads.dataset,
    "scanner of pyarrow": lambda rows: pads.dataset(rows).scanner(batch_size=2),
    "scanner of a stream": lambda rows: pads.Scanner.from_batches(rows.to_reader()),
    "reader": lambda rows: rows.to_reader(),
    "batches": lambda rows: rows.to_batches(max_chunksize=1),
    "struct array": lambda rows: rows.to_struct_array().combine_chunks(),
    "dict of arrays": lambda rows: dict(zip(rows.column_names, rows.columns, strict=True)),
    "polars": pl.from_arrow,
    "polars categories": lambda rows: pl.from_arrow(rows).with_columns(pl.col("p").cast(pl.Categorical)),
    "polars enum": lambda rows: pl.from_arrow(rows).with_columns(pl.col("p").cast(pl.Enum(["a", "c"]))),
    "frames of polars": lambda rows: pl.from_arrow(rows).iter_slices(2),
    "pandas categories": lambda rows: pl.from_arrow(rows).to_pandas(use_pyarrow_extension_array=True).astype(
        {"p": pd.CategoricalDtype(["c", "a"], ordered=True)}
    ),
    "frames of pandas": lambda rows: (
        rows.slice(start, 1).to_pandas(types_mapper=pd.ArrowDtype) for start in range(rows.num_rows)
    ),
    "narwhals": lambda rows: narwhals.from_native(pl.from_arrow(rows)),
    "duckdb": relation,
    "datafusion": lambda rows: datafusion.SessionContext().from_arrow(rows),
    "dataset of ours": ours,
    "scanner of ours": lambda rows: ours(rows).scanner(),
}  # fmt: skip
UNTYPED: dict[str, Callable[[pa.Table], Any]] = {
    "list of dicts": lambda rows: rows.to_pylist(),
    "tuple of dicts": lambda rows: tuple(rows.to_pylist()),
    "dict of lists": lambda rows: rows.to_pydict(),
    "dict of numpy arrays": lambda rows: {
        "id": rows["id"].to_numpy(),
        "p": np.array(rows["p"].to_pylist(), object),
        "v": rows["v"].to_pylist(),
    },
}
"""Inputs without types: those of `schema` are used."""

VERBS: dict[str, Callable[..., Any]] = {
    "append": lambda table, rows, **schema: table.append(rows, **schema),
    "insert": lambda table, rows, **schema: table.insert(rows, **schema),
    "overwrite": lambda table, rows, **schema: table.overwrite(rows, **schema),
    "replace_where": lambda table, rows, **schema: table.replace_where(rows, "id > 3", **schema),
    "merge": lambda table, rows, **schema: table.merge(rows, "id", **schema),
    "merge_insert": lambda table, rows, **schema: (
        table.merge_insert("id").when_not_matched_insert_all().execute(rows, **schema)
    ),
}
KEPT = {"overwrite": [], "replace_where": ROWS[:3]}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", [*INPUTS, *UNTYPED])
def test_rows_of_other_libraries(dataset: Any, name: str, verb: str) -> None:
    rows = table_of(*NEW[:2]) if verb == "replace_where" and name == "polars enum" else table_of(*NEW)
    schema = {"schema": SCHEMA} if name in UNTYPED else {}
    data = (INPUTS | UNTYPED)[name](rows)
    made = VERBS[verb](dataset, data, **schema)
    expected = [*KEPT.get(verb, ROWS), *(tuple(row.values()) for row in rows.to_pylist())]
    assert content(made) == sorted(expected, key=str)
    assert made.schema == dataset.schema


@pytest.mark.parametrize(
    "make",
    [*(INPUTS[name] for name in ("dataset of pyarrow", "scanner of pyarrow")), *UNTYPED.values()],
    ids=["dataset", "scanner", *UNTYPED],
)
def test_new_table_is_that_of_pylance(tmp_path: Path, make: Callable[[pa.Table], Any]) -> None:
    rows = table_of(*NEW)
    if make is UNTYPED["tuple of dicts"]:
        made, reference = make(rows), list(make(rows))  # type: ignore[call-overload]
    else:
        made, reference = make(rows), make(rows)
    assert (
        lance_spark.write(made, tmp_path / "t").to_table() == lance.write_dataset(reference, tmp_path / "r").to_table()
    )


def test_chunks_of_a_text_file(tmp_path: Path) -> None:
    chunks = pd.read_csv(io.StringIO("id,p\n1,a\n2,b\n3,c\n"), chunksize=1)
    assert lance_spark.write(chunks, tmp_path / "t").to_table().to_pydict() == {"id": [1, 2, 3], "p": ["a", "b", "c"]}


def test_keys_of_all_dicts_are_columns(tmp_path: Path) -> None:
    made = lance_spark.write([{"a": 1}, {"b": "x", "a": 2}, {}], tmp_path / "t")
    assert made.to_table().to_pylist() == [{"a": 1, "b": None}, {"a": 2, "b": "x"}, {"a": None, "b": None}]


def test_matrix_is_a_column_of_vectors(tmp_path: Path) -> None:
    vectors = np.arange(6, dtype=np.float32).reshape(2, 3)
    made = lance_spark.write({"id": [1, 2], "v": vectors}, tmp_path / "t")
    assert made.schema.field("v").type == pa.list_(pa.float32(), 3)
    assert made.to_table()["v"].to_pylist() == vectors.tolist()


def test_columns_of_the_schema_that_are_not_given_are_null(tmp_path: Path) -> None:
    for name, data in {"dicts": [{"id": 1}], "lists": {"id": [1]}}.items():
        made = lance_spark.write(data, tmp_path / name, schema=SCHEMA)
        assert made.to_table() == table_of((1, None, None))


REFUSED: dict[str, tuple[Callable[[], Any], dict[str, Any], str]] = {
    "text": (lambda: "rows", {}, "cannot write a str; give a Table"),
    "lazy frame": (lambda: pl.LazyFrame({"a": [1]}), {}, "cannot write a LazyFrame"),
    "numbers": (lambda: [1, 2], {}, "in an iterable of batches: cannot write a int"),
    "generator of dicts": (lambda: ({"id": [1]} for _ in "x"), {}, "has a dict in it; give .* a list of dicts"),
    "series": (lambda: pl.Series("a", [1]), {}, "the Arrow data of a Series is no table"),
    "array": (lambda: pa.array([1]), {}, "the Arrow data of a Int64Array is no table"),
    "null row": (lambda: pa.array([{"a": 1}, None]), {}, "the Arrow data of a StructArray is no table"),
    "text as a column": (lambda: {"a": "xy"}, {}, "column 'a' is a str; give a list"),
    "number as a column": (lambda: {"a": 1}, {}, "column 'a' is a int"),
    "lengths": (lambda: {"a": [1], "b": [1, 2]}, {}, r"different lengths: \{'a': 1, 'b': 2\}"),
    "types": (lambda: [{"a": 1}, {"a": "x"}], {}, "the values of column 'a' make no Arrow array"),
    "names": (lambda: [{1: 1}], {}, "the name 1 of a column is no text"),
    "value": (lambda: [{"v": 1.5}], {"schema": SCHEMA}, "column 'v': 1.5 is no int32"),
    "large value": (lambda: {"v": [1 << 40]}, {"schema": SCHEMA}, "the values of column 'v' .* of type int32"),
    "array of the value": (lambda: {"v": np.array([1.5])}, {"schema": SCHEMA}, "column 'v' .* of type int32"),
    "column": (lambda: [{"id": 1, "more": 2}], {"schema": SCHEMA}, "a column 'more', which the schema given"),
    "column of a frame": (lambda: pd.DataFrame({"more": [1]}), {"schema": SCHEMA}, "a column 'more', which the schema"),
    "field": (
        lambda: [{"s": {"x": 1, "y": 2}}],
        {"schema": pa.schema([("s", pa.struct([("x", pa.int64())]))])},
        "column 's' has no field 'y'; it has x",
    ),
    "field in a map": (
        lambda: {"m": [{"k": {"x": 1, "y": 2}}]},
        {"schema": pa.schema([("m", pa.map_(pa.string(), pa.struct([("x", pa.int64())])))])},
        "column 'm' has no field 'y'; it has x",
    ),
    "polars objects": (lambda: pl.DataFrame({"o": pl.Series([object()])}), {}, "column 'o' has Python objects"),
    "wide integers": (lambda: pl.DataFrame({"a": pl.Series([1], dtype=pl.Int128)}), {}, "a DataFrame is no table"),
    "interval of duckdb": (
        lambda: duckdb.sql("SELECT {'i': INTERVAL 1 DAY} AS c"),
        {},
        "c.i has type month_day_nano_interval, which Lance cannot hold",
    ),
    "union of duckdb": (lambda: duckdb.sql("SELECT union_value(x := 1) AS c"), {}, "c has type sparse_union<"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_input(tmp_path: Path, name: str) -> None:
    make, arguments, message = REFUSED[name]
    with pytest.raises(InvalidInputError, match=message):
        lance_spark.write(make(), tmp_path / "t", **arguments)
    assert not list(tmp_path.rglob("*.manifest"))


@pytest.mark.slow
@pytest.mark.parametrize("is_reader", [True, False])
def test_streams_are_read_as_they_are_written(tmp_path: Path, is_reader: bool) -> None:
    size, held, start = 1 << 20, [], pa.total_allocated_bytes()

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(60):
            held.append(pa.total_allocated_bytes() - start)
            text = pa.array([f"{number:08}" + "x" * (size - 8)]).cast(pa.string_view())
            yield pa.record_batch({"n": pa.array([number]), "text": text})

    schema = pa.schema([("n", pa.int64()), ("text", pa.string_view())])
    stream = pa.RecordBatchReader.from_batches(schema, batches()) if is_reader else batches()
    made = lance_spark.write(stream, tmp_path / "t", max_rows_per_file=4)
    assert made.to_table(["n"])["n"].to_pylist() == list(range(60))
    assert max(held) < 20 * size


FRAMES: dict[str, pd.DataFrame] = {
    "range": pd.DataFrame({"a": [1, 2]}),
    "part of a range": pd.DataFrame({"a": [0, 1, 2]}).iloc[1:],
    "named": pd.DataFrame({"a": [1, 2]}, index=pd.Index(["x", "y"], name="key")),
    "unnamed": pd.DataFrame({"a": [1, 2]}, index=[7, 9]),
    "rows of a filter": pd.DataFrame({"a": [0, 1, 2]}).query("a > 0"),
    "several levels": pd.DataFrame(
        {"a": [1, 2]}, index=pd.MultiIndex.from_tuples([(1, "x"), (2, "y")], names=["one", "two"])
    ),
    "unnamed levels": pd.DataFrame({"a": [1, 2]}, index=pd.MultiIndex.from_tuples([(1, "x"), (2, "y")])),
    "times": pd.DataFrame({"a": [1, 2]}, index=pd.date_range("2024-01-01", periods=2, name="day", tz="UTC")),
    "name of a column": pd.DataFrame({"a": [1, 2]}).set_index("a", drop=False),
}


@pytest.mark.parametrize("name", FRAMES)
def test_index_of_a_frame_is_a_column(tmp_path: Path, name: str) -> None:
    made = lance_spark.write(FRAMES[name], tmp_path / "t").to_table()
    reference = lance.write_dataset(FRAMES[name], tmp_path / "r").to_table()
    assert made.equals(reference)
    again = lance_spark.write(FRAMES[name], tmp_path / "t", mode="append").to_table()
    assert again.equals(pa.concat_tables([reference, reference]))


@pytest.mark.parametrize("verb", VERBS)
def test_index_fills_the_column_of_its_name(dataset: Any, verb: str) -> None:
    frame = table_of(*NEW[:1]).to_pandas().astype({"v": "int32"}).set_index(["p", "id"])
    assert content(VERBS[verb](dataset, frame)) == sorted([*KEPT.get(verb, ROWS), NEW[0]], key=str)


def test_index_is_the_key_of_added_columns(dataset: Any) -> None:
    frame = pd.DataFrame({"more": [10, 20]}, index=pd.Index([1, 2], name="id"))
    added = dataset.add_columns((frame, ["id"])).to_table(["id", "more"], filter="more IS NOT NULL")
    assert sorted(zip(added["id"].to_pylist(), added["more"].to_pylist(), strict=True)) == [(1, 10), (2, 20)]


def test_unnamed_index_is_refused_by_name(kind: Kind, dataset: Any) -> None:
    frame = pd.DataFrame({"id": [6]}, index=[3])
    with pytest.raises(InvalidInputError, match=r"'__index_level_0__' is the index .*reset_index\(drop=True\)"):
        dataset.append(frame)
    kind.check(dataset, ROWS)
    assert content(dataset.append(frame.reset_index(drop=True)))[-1] == (6, None, None)
