"""Exact search beside the reference library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, NotFoundError
from tests.support.vector_search.tables import clustered, vectors, write

TYPES = {"f2": pa.float16(), "f4": pa.float32(), "f8": pa.float64(), "u1": pa.uint8()}
K = 10


def expected(uri: str, query: Any, **nearest: Any) -> pa.Table:
    filters = {name: nearest.pop(name) for name in ("filter", "prefilter", "limit", "offset") if name in nearest}
    return lance.dataset(uri).to_table(nearest={"column": "v", "q": query, "use_index": False, **nearest}, **filters)


def assert_same(ours: pa.Table, theirs: pa.Table, tolerance: float = 1e-5) -> None:
    assert ours["id"].to_pylist() == theirs["id"].to_pylist()
    np.testing.assert_allclose(ours["_distance"].to_numpy(), theirs["_distance"].to_numpy(), tolerance, tolerance)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_float_vectors_have_the_rows_and_distances_of_pylance(tmp_path: Path, dtype: str, metric: str) -> None:
    uri = str(tmp_path / "t")
    values = clustered(3000, 32, dtype)
    write(uri, vectors(values), max_rows_per_file=1100)
    dataset = lance_spark.open(uri)
    for query in values[:20]:
        ours, theirs = dataset.nearest("v", query, K, metric), expected(uri, query, k=K, metric=metric)
        assert ours.schema.names == theirs.schema.names
        # Sums of float16 are rounded in different orders, so equal distances can change places.
        if dtype != "f2":
            assert_same(ours, theirs)
        else:
            np.testing.assert_allclose(ours["_distance"].to_numpy(), theirs["_distance"].to_numpy(), 1e-3, 1e-3)


def test_bits_are_compared_by_hamming_without_being_asked(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    values = clustered(3000, 16, "u1")
    write(uri, vectors(values))
    for query in values[:10]:
        ours = lance_spark.open(uri).nearest("v", query)
        assert_same(ours, expected(uri, query, metric="hamming"))
        assert ours["_distance"].to_pylist()[0] == 0


@pytest.mark.parametrize("stable", [False, True])
def test_equal_distances_come_by_row_id_and_deleted_rows_do_not_come(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path / "t")
    values = np.repeat(clustered(300, 8, "f4"), 5, axis=0)
    write(uri, vectors(values), max_rows_per_file=400, enable_stable_row_ids=stable)
    lance.dataset(uri).delete("id % 10 = 3")
    lance.dataset(uri).update({"id": "id + 10000"}, "id % 7 = 1")
    for query in values[::100]:
        assert_same(lance_spark.open(uri).nearest("v", query, 17), expected(uri, query, k=17))


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_rows_without_a_comparable_vector(tmp_path: Path, metric: str) -> None:
    uri = str(tmp_path / "t")
    values = clustered(50, 4, "f4")
    values[3, 1], values[4, 2], values[5] = np.nan, np.inf, 0
    rows = vectors(values).to_pylist()
    rows[7], rows[8][1] = None, None
    write(uri, pa.array(rows, pa.list_(pa.float32(), 4)))
    assert_same(
        lance_spark.open(uri).nearest("v", values[0], 100, metric), expected(uri, values[0], k=100, metric=metric)
    )


def test_a_query_that_is_zero_or_no_number_has_no_nearest_row(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    write(uri, vectors(clustered(50, 4, "f4")))
    dataset = lance_spark.open(uri)
    assert dataset.nearest("v", [0, 0, 0, 0], metric="cosine").num_rows == 0
    assert dataset.nearest("v", [np.nan, 0, 0, 0]).num_rows == 0
    assert dataset.nearest("v", [0, 0, 0, 0]).num_rows == 10


@pytest.mark.parametrize("prefilter", [True, False])
def test_a_filter_before_and_after_the_search(tmp_path: Path, prefilter: bool) -> None:
    uri = str(tmp_path / "t")
    values = clustered(1000, 8, "f4")
    write(uri, vectors(values), max_rows_per_file=300)
    theirs = expected(uri, values[0], filter="id % 3 = 0", prefilter=prefilter)
    ours = lance_spark.open(uri).nearest("v", values[0], filter="id % 3 = 0", prefilter=prefilter)
    assert_same(ours, theirs)
    assert (ours.num_rows == K) is prefilter


def test_range_limit_and_offset(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    values = clustered(1000, 8, "f4")
    write(uri, vectors(values))
    dataset = lance_spark.open(uri)
    ends = dataset.nearest("v", values[0], 40)["_distance"].to_pylist()
    for bounds in [(ends[3], ends[30]), (None, ends[5]), (ends[5], None)]:
        ours = dataset.nearest("v", values[0], 20, distance_range=bounds)
        assert_same(ours, expected(uri, values[0], k=20, distance_range=bounds))
    assert_same(
        dataset.nearest("v", values[0], 20, limit=5, offset=3), expected(uri, values[0], k=20, limit=5, offset=3)
    )


def test_several_queries_at_once(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    values = clustered(1000, 8, "f4")
    write(uri, vectors(values), max_rows_per_file=300)
    ours = lance_spark.open(uri).nearest("v", values[:7], 4)
    theirs = expected(uri, values[:7], k=4)
    assert ours.schema.names == theirs.schema.names == ["query_index", "id", "v", "_distance"]
    assert ours.schema.field("query_index") == theirs.schema.field("query_index")
    assert ours["query_index"].to_pylist() == theirs["query_index"].to_pylist()
    assert_same(ours, theirs)


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_lists_of_vectors_sum_the_least_distances(tmp_path: Path, metric: str) -> None:
    uri = str(tmp_path / "t")
    random = np.random.default_rng(3)
    rows = [random.normal(size=(random.integers(1, 5), 8)).tolist() for _ in range(300)]
    column = pa.array(rows, pa.list_(pa.list_(pa.float32(), 8)))
    write(uri, column, max_rows_per_file=80)
    query = random.normal(size=(3, 8)).astype("f4")
    ours = lance_spark.open(uri).nearest("v", query, metric=metric)
    assert_same(ours, expected(uri, query, k=K, metric=metric))


def test_columns_and_row_ids_of_the_result(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    values = clustered(100, 8, "f4")
    write(uri, vectors(values), max_rows_per_file=30)
    dataset = lance_spark.open(uri)
    full = dataset.nearest("v", values[50], with_row_id=True)
    theirs = lance.dataset(uri).to_table(nearest={"column": "v", "q": values[50]}, with_row_id=True)
    assert full.schema.names == theirs.schema.names == ["id", "v", "_distance", "_rowid"]
    assert full["_rowid"].to_pylist()[0] == (1 << 32) + 20
    assert dataset.nearest("v", values[50], columns=["id"]).schema.names == ["id", "_distance"]
    assert dataset.nearest("v", values[50], columns=["_distance", "id"]).schema.names == ["_distance", "id"]
    assert dataset.nearest("v", values[50], columns=[]).schema.names == ["_distance"]
    assert dataset.nearest("v", values[50], columns=[])["_distance"].to_pylist() == full["_distance"].to_pylist()


def test_columns_of_each_type_come_in_the_order_of_the_rows(tmp_path: Path) -> None:
    uri, numbers = str(tmp_path / "t"), [*range(100)]
    types = [pa.int8(), pa.uint16(), pa.int32(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_(), pa.string()]
    columns = [pa.array(numbers, pa.int64()).cast(dtype) for dtype in (*types, pa.timestamp("us", "UTC"))]
    columns += [pa.array(numbers, pa.int32()).cast(pa.date32()), pa.array(np.arange(100, dtype="f2"))]
    columns += [pa.array([None if number % 3 == 0 else number for number in numbers], dtype) for dtype in types[:6]]
    arrays = [*columns, vectors(clustered(100, 8, "f4"))]
    table = pa.table(arrays, names=[*(f"c{number}" for number in range(len(arrays) - 1)), "v"])
    lance.write_dataset(table, uri, max_rows_per_file=40)
    dataset, query = lance_spark.open(uri), clustered(100, 8, "f4")[7]
    for k in (1, 10, 90):
        found = dataset.nearest("v", query, k, with_row_id=True)
        ids = found["_rowid"].to_numpy()
        expected_rows = table.take(pa.array((ids >> np.uint64(32)) * 40 + (ids & np.uint64(0xFFFFFFFF))))
        assert found.select(table.schema.names).to_pydict() == expected_rows.to_pydict()
        assert found.select(table.schema.names).schema.types == table.schema.types
        found.validate(full=True)


def test_a_vector_in_a_struct(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    values = clustered(100, 8, "f4")
    inner = pa.StructArray.from_arrays(
        [pa.array(range(100)), vectors(values)], ["a", "b.c"], mask=pa.array([False] * 99 + [True])
    )
    lance_spark.write(pa.table({"id": range(100), "s": inner}), uri)
    found = lance_spark.open(uri).nearest("s.`b.c`", values[99], 100, columns=["id"])
    exact = np.square(values[:99] - values[99]).sum(1)
    assert found["id"].to_pylist() == np.argsort(exact, kind="stable").tolist()


@pytest.mark.parametrize(
    ("column", "query", "options", "error", "message"),
    [
        ("id", [1.0], {}, InvalidInputError, "column id is int64, not a vector"),
        ("w", [1.0], {}, NotFoundError, "w"),
        ("v", [1.0, 2.0], {}, InvalidInputError, "the query has 2 values, the vectors of column v have 4"),
        ("v", [[1.0], [2.0, 3.0]], {}, InvalidInputError, "rows differ in length"),
        ("v", ["a"] * 4, {}, InvalidInputError, "not a vector of numbers"),
        ("v", None, {}, InvalidInputError, "not a vector of numbers"),
        ("v", [1.0] * 4, {"k": 0}, InvalidInputError, "k is 0"),
        ("v", [1.0] * 4, {"metric": "manhattan"}, InvalidInputError, "no metric 'manhattan'"),
        ("v", [1.0] * 4, {"metric": "hamming"}, InvalidInputError, "hamming"),
        ("v", [1.0] * 4, {"distance_range": (2, 1)}, InvalidInputError, "from 2 to 1 is empty"),
        ("v", [1.0] * 4, {"limit": -1}, InvalidInputError, "negative"),
        ("v", [1.0] * 4, {"filter": "x = 1"}, NotFoundError, "x"),
        ("v", [1.0] * 4, {"columns": ["x"]}, NotFoundError, "x"),
    ],
)
def test_arguments_that_make_no_sense(
    tmp_path: Path, column: str, query: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    uri = str(tmp_path / "t")
    write(uri, vectors(clustered(10, 4, "f4")))
    with pytest.raises(error, match=message):
        lance_spark.open(uri).nearest(column, query, **options)


def test_an_empty_table_has_no_nearest_row(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    write(uri, vectors(clustered(0, 4, "f4")))
    found = lance_spark.open(uri).nearest("v", [1.0] * 4)
    assert (found.num_rows, found.schema.names) == (0, ["id", "v", "_distance"])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_many_queries_have_the_rows_and_distances_of_single_ones(tmp_path: Path, dtype: str, metric: str) -> None:
    uri = str(tmp_path / "t")
    values = np.repeat(clustered(900, 16, dtype), 3, axis=0)
    rows: list[Any] = vectors(values).to_pylist()
    rows[5], rows[1700] = None, [0.0] * 16
    write(uri, pa.array(rows, vectors(values).type), max_rows_per_file=1000)
    dataset = lance_spark.open(uri)
    queries = np.concatenate([values[::100], clustered(5, 16, dtype, seed=9)])
    together = dataset.nearest("v", queries, 7, metric)
    for number, query in enumerate(queries):
        alone = dataset.nearest("v", query, 7, metric)
        mine = together.filter(pc.equal(together["query_index"], number)).drop_columns(["query_index"])
        assert mine.equals(alone)


def test_many_queries_with_infinite_values_ranges_and_filters(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    values = clustered(300, 8, "f4")
    values[3, 1], values[4, 2], values[6] = np.nan, np.inf, 3e38
    write(uri, vectors(values))
    dataset = lance_spark.open(uri)
    for options in ({"k": 300}, {"k": 5, "distance_range": (0.5, 9)}, {"k": 5, "filter": "id % 3 = 1"}):
        together = dataset.nearest("v", values[10:16], **options)
        alone = [dataset.nearest("v", query, **options) for query in values[10:16]]
        assert together.drop_columns(["query_index"]).equals(pa.concat_tables(alone))


@pytest.mark.parametrize("stable", [False, True])
def test_row_ids_alone_are_those_of_the_full_result(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path / "t")
    values = clustered(500, 8, "f4")
    write(uri, vectors(values), max_rows_per_file=150, enable_stable_row_ids=stable)
    lance.dataset(uri).update({"id": "id + 1000"}, "id % 4 = 1")
    dataset = lance_spark.open(uri)
    for query in (values[0], values[:5]):
        full = dataset.nearest("v", query, 9, with_row_id=True)
        alone = dataset.nearest("v", query, 9, columns=[], with_row_id=True)
        assert alone.equals(full.select(alone.schema.names).replace_schema_metadata(alone.schema.metadata))
