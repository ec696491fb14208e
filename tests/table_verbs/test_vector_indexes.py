"""Vector indexes of plain and partitioned tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from lance_spark.partitioned.dataset import PartitionedDataset, create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity


def rows(count: int, first_id: int = 0) -> pa.Table:
    random = np.random.default_rng(first_id)
    centres = np.random.default_rng(0).normal(size=(20, 16))
    values = (centres[random.integers(0, 20, count)] + random.normal(scale=1.0, size=(count, 16))).astype("f4")
    ids = np.arange(first_id, first_id + count)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 16)
    return pa.table({"id": ids, "p": ids % 2, "v": vectors})


@pytest.fixture(params=["plain", "partitioned"])
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    table = rows(1200)
    if request.param == "plain":
        return lance_spark.write(table, str(tmp_path / "t"))
    made = create_partitioned_dataset(str(tmp_path / "t"), table.schema, [PartitionBy("p", ("p",), Identity())])
    return made.append(table)


def append(dataset: Any, table: pa.Table) -> Any:
    if isinstance(dataset, PartitionedDataset):
        return dataset.append(table)
    return lance_spark.write(table, dataset.uri, mode="append")


def nearest(dataset: Any, place: int, **arguments: Any) -> list[int]:
    query = rows(1200)["v"][place].as_py()
    return list(dataset.nearest("v", query, columns=["id"], **arguments)["id"].to_pylist())


def test_index_is_built_extended_and_dropped(dataset: Any) -> None:
    made = dataset.create_index("v", "ivf_pq", num_partitions=2, num_sub_vectors=8, num_bits=4)
    assert made.version == dataset.version + 1
    assert {index["type"] for index in made.list_indices()} == {"IVF_PQ"}
    assert made.index_statistics("v_idx")["num_indexed_rows"] == 1200
    assert nearest(made, 17, k=1, fast_search=True, refine_factor=20) == [17]
    more = append(made, rows(100, 5000))
    assert more.index_statistics("v_idx")["num_unindexed_rows"] == 100
    delta = more.optimize_indices(num_indices_to_merge=0)
    assert delta.index_statistics("v_idx")["num_unindexed_rows"] == 0
    merged = delta.optimize_indices(num_indices_to_merge=9)
    assert nearest(merged, 17, k=1, fast_search=True, refine_factor=20) == [17]
    query = rows(100, 5000)["v"][3].as_py()
    assert merged.nearest("v", query, k=1, fast_search=True, refine_factor=20)["id"].to_pylist() == [5003]
    with pytest.raises(AlreadyExistsError, match="v_idx"):
        merged.create_index("v", "IVF_FLAT")
    assert merged.create_index("v", "IVF_FLAT", replace=True).list_indices()[0]["type"] == "IVF_FLAT"
    assert merged.drop_index("v_idx").list_indices() == []


def test_recall_of_an_index(dataset: Any) -> None:
    exact = dataset.create_index("v", "ivf_flat", num_partitions=8, metric="cosine")
    found = exact.index_recall("v_idx", k=5, num_queries=30, nprobes=8)
    assert {name: found[name] for name in ("column", "metric", "k", "num_queries", "recall")} == {
        "column": "v",
        "metric": "cosine",
        "k": 5,
        "num_queries": 30,
        "recall": 1.0,
    }
    rough = exact.index_recall("v_idx", num_queries=30, nprobes=1)
    assert 0.1 <= rough["least_recall"] <= rough["recall"] < 1
    assert exact.index_recall("v_idx", num_queries=30, nprobes=1) == rough
    with pytest.raises(NotFoundError, match="nope"):
        exact.index_recall("nope")
    with pytest.raises(InvalidInputError, match="id_idx"):
        exact.create_scalar_index("id").index_recall("id_idx")
