from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.partitioned.dataset import create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity

VALUES = np.random.default_rng(5).normal(size=(200, 4)).astype(np.float32)
ROWS = pa.table(
    {
        "id": pa.array(range(200), pa.int64()),
        "p": pa.array([number % 4 for number in range(200)], pa.int64()),
        "v": pa.FixedSizeListArray.from_arrays(VALUES.ravel(), 4),
    }
)
QUERY = VALUES[17]


@pytest.fixture(params=["plain", "partitioned"])
def table(request: pytest.FixtureRequest) -> Any:
    uri = f"memory://nearest-{uuid.uuid4().hex}"
    if request.param == "plain":
        return lance_spark.write(ROWS, uri, max_rows_per_file=60)
    return create_partitioned_dataset(uri, ROWS.schema, [PartitionBy("p", ("p",), Identity())]).append(ROWS)


def nearest(query: np.ndarray[Any, Any], ids: list[int], k: int) -> list[int]:
    distances = np.square(VALUES[ids] - query).sum(1)
    return [ids[place] for place in np.argsort(distances, kind="stable")[:k]]


def test_nearest_rows_of_the_table(table: Any) -> None:
    found = table.nearest("v", QUERY, 12)
    assert found.schema.names == ["id", "p", "v", "_distance"]
    assert found["id"].to_pylist() == nearest(QUERY, list(range(200)), 12)
    assert found["_distance"].to_pylist() == sorted(found["_distance"].to_pylist())


@pytest.mark.parametrize("filter", ["p = 1", "p = 1 or id < 20", "id % 5 = 0"])
def test_nearest_rows_with_a_filter_before_the_search(table: Any, filter: str) -> None:
    ids = table.to_table(columns=["id"], filter=filter)["id"].to_pylist()
    found = table.nearest("v", QUERY, 7, filter=filter, columns=["id"])
    assert found["id"].to_pylist() == nearest(QUERY, sorted(ids), 7)


def test_nearest_rows_with_a_filter_after_the_search(table: Any) -> None:
    found = table.nearest("v", QUERY, 12, filter="p = 1", prefilter=False, columns=["id"])
    wanted = [number for number in nearest(QUERY, list(range(200)), 12) if number % 4 == 1]
    assert found["id"].to_pylist() == wanted
    assert len(wanted) < 12


def test_nearest_rows_of_several_queries(table: Any) -> None:
    found = table.nearest("v", VALUES[:3], 5, columns=["id"])
    assert found["query_index"].to_pylist() == [0] * 5 + [1] * 5 + [2] * 5
    assert found["id"].to_pylist() == [id_ for query in VALUES[:3] for id_ in nearest(query, list(range(200)), 5)]


def test_nearest_rows_after_rows_were_deleted(table: Any) -> None:
    changed = table.delete("id = 17 or p = 2")
    ids = [number for number in range(200) if number != 17 and number % 4 != 2]
    assert changed.nearest("v", QUERY, 9)["id"].to_pylist() == nearest(QUERY, ids, 9)


def test_no_row_matches_the_filter(table: Any) -> None:
    found = table.nearest("v", QUERY, filter="p = 77", with_row_id=True)
    assert (found.num_rows, found.schema.names) == (0, ["id", "p", "v", "_distance", "_rowid"])


def test_nearest_rows_in_words_of_pylance(table: Any) -> None:
    found = table.to_table(columns=["id"], nearest={"column": "v", "q": QUERY, "k": 12}, filter="p = 1")
    wanted = [number for number in nearest(QUERY, list(range(200)), 12) if number % 4 == 1]
    assert found["id"].to_pylist() == wanted
    before = table.to_table(nearest={"column": "v", "q": QUERY, "k": 5}, filter="p = 1", prefilter=True, limit=4)
    assert before["id"].to_pylist() == nearest(QUERY, list(range(1, 200, 4)), 5)[:4]
    with pytest.raises(InvalidInputError, match="no key 'nprobe'; did you mean 'nprobes'"):
        table.to_table(nearest={"column": "v", "q": QUERY, "nprobe": 3})
    with pytest.raises(InvalidInputError, match="needs the key 'q'"):
        table.to_table(nearest={"column": "v"})
    with pytest.raises(InvalidInputError, match="prefilter belongs to nearest or full_text_query"):
        table.to_table(prefilter=True)


@pytest.mark.parametrize("limits", [{}, {"limit": 3}, {"limit": 15}, {"limit": 7, "offset": 2}, {"offset": 4}], ids=str)
@pytest.mark.parametrize("k", [None, 5])
def test_k_is_the_limit_unless_it_is_given(table: Any, tmp_path: Path, k: int | None, limits: dict[str, int]) -> None:
    reference = lance.write_dataset(ROWS, tmp_path / "t")
    nearest = {"column": "v", "q": QUERY} if k is None else {"column": "v", "q": QUERY, "k": k}
    for filtered in ({}, {"filter": "id % 3 = 1"}, {"filter": "id % 3 = 1", "prefilter": True}):
        arguments = {"columns": ["id"], "nearest": nearest, **limits, **filtered}
        expected = reference.to_table(**arguments)["id"].to_pylist()
        assert table.to_table(**arguments)["id"].to_pylist() == expected
        assert table.scanner(**arguments).to_table()["id"].to_pylist() == expected
    arguments = {"columns": ["id"], "filter": "id % 3 = 1", **limits}
    before = reference.to_table(nearest=nearest, prefilter=True, **arguments)
    assert table.nearest("v", QUERY, k, **arguments)["id"].to_pylist() == before["id"].to_pylist()


def test_a_limit_of_no_rows_gives_the_columns_alone(table: Any) -> None:
    found = table.nearest("v", QUERY, limit=0)
    assert (found.num_rows, found.column_names) == (0, ["id", "p", "v", "_distance"])
