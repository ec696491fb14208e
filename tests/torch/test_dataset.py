"""Tables as data sets of PyTorch: each row once over ranks and workers, tensors without surprises, resumed exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, NotFoundError

torch = pytest.importorskip("torch", reason="PyTorch is not installed; it is 200 MB, so `make test` does without it")


def rows(count: int = 500) -> pa.Table:
    vectors = np.arange(count * 4, dtype=np.float32)
    return pa.table(
        {
            "id": pa.array(range(count)),
            "half": pa.array([None if key % 5 == 0 else key / 2 for key in range(count)]),
            "is_even": pa.array([key % 2 == 0 for key in range(count)]),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors), 4),
            "text": pa.array([None if key == 3 else f"row {key}" for key in range(count)]),
        }
    )


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table of the reference library, with deleted rows: 450 are left."""
    path = str(tmp_path / "t.lance")
    lance.write_dataset(rows(), path, max_rows_per_file=90)
    lance.dataset(path).delete("id % 10 = 7")
    return path


LEFT = [key for key in range(500) if key % 10 != 7]


def loaded(data: Any, **options: Any) -> list[int]:
    loader = torch.utils.data.DataLoader(data, batch_size=None, **options)
    return [key for batch in loader for key in batch["id"].tolist()]


def test_tensors_have_the_values_of_the_table(uri: str) -> None:
    (batch,) = lance_spark.torch.dataset(uri, filter="id < 6")
    assert batch["id"].dtype == torch.int64
    assert batch["id"].tolist() == [0, 1, 2, 3, 4, 5]
    assert batch["half"].isnan().tolist() == [True, False, False, False, False, True]
    assert batch["is_even"].dtype == torch.bool
    assert batch["is_even"].tolist() == [True, False] * 3
    assert batch["vector"].shape == (6, 4)
    assert batch["vector"][2].tolist() == [8.0, 9.0, 10.0, 11.0]
    assert batch["text"] == ["row 0", "row 1", "row 2", None, "row 4", "row 5"]


@pytest.mark.parametrize("workers", [0, 2])
def test_each_row_is_loaded_once_over_ranks_and_workers(uri: str, workers: int) -> None:
    ranks = [
        loaded(
            lance_spark.torch.dataset(uri, ["id"], batch_size=16, shuffle=True, rank=rank, world_size=2),
            num_workers=workers,
        )
        for rank in range(2)
    ]
    assert sorted(ranks[0] + ranks[1]) == LEFT
    assert abs(len(ranks[0]) - len(ranks[1])) <= 1


def test_epochs_have_other_orders_also_for_workers_that_live_on(uri: str) -> None:
    data = lance_spark.torch.dataset(uri, ["id"], shuffle=True, window_rows=64)
    loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=1, persistent_workers=True)
    orders = []
    for epoch in (0, 1, 0):
        data.set_epoch(epoch)
        orders.append([key for batch in loader for key in batch["id"].tolist()])
    assert orders[0] == orders[2] != orders[1]
    assert sorted(orders[1]) == LEFT


def test_later_versions_are_not_seen(uri: str) -> None:
    data = lance_spark.torch.dataset(uri, ["id"])
    lance_spark.open(uri).delete("id < 400")
    assert loaded(data, num_workers=1) == LEFT
    assert loaded(lance_spark.torch.dataset(uri, ["id"], version=2)) == LEFT


def test_state_resumes_after_the_last_batch(uri: str) -> None:
    data = lance_spark.torch.dataset(uri, ["id"], batch_size=32, shuffle=True, window_rows=50)
    data.set_epoch(2)
    iteration = iter(data)
    first = [next(iteration)["id"].tolist() for _ in range(5)]
    state = data.state_dict()
    rest = [batch["id"].tolist() for batch in iteration]
    again = lance_spark.torch.dataset(uri, ["id"], batch_size=32, shuffle=True, window_rows=50)
    again.load_state_dict(state)
    assert [batch["id"].tolist() for batch in again] == rest
    assert sorted(key for keys in first + rest for key in keys) == LEFT


def test_state_of_other_version_or_shards_is_refused(uri: str) -> None:
    state = lance_spark.torch.dataset(uri).state_dict()
    other = lance_spark.torch.dataset(uri, rank=1, world_size=2)
    other.load_state_dict(state)
    with pytest.raises(InvalidInputError, match="shard 0 of 1"):
        next(iter(other))
    with pytest.raises(InvalidInputError, match="version 1 is open"):
        lance_spark.torch.dataset(uri, version=1).load_state_dict(state)


def test_fields_of_structs_are_tensors_by_their_paths(tmp_path: Path) -> None:
    structs = pa.array([{"x": number, "y": {"z": number / 2}} for number in range(7)])
    uri = str(tmp_path / "t")
    lance_spark.write(pa.table({"id": range(7), "s": structs}), uri)
    (batch,) = lance_spark.torch.dataset(uri, columns=["s.y.z", "id", "s.x"], batch_size=7)
    assert list(batch) == ["s.y.z", "id", "s.x"]
    assert batch["s.y.z"].tolist() == [number / 2 for number in range(7)]
    assert batch["s.x"].tolist() == batch["id"].tolist() == list(range(7))
    with pytest.raises(InvalidInputError, match="'id' is named twice"):
        lance_spark.torch.dataset(uri, columns=["id", "id"])


def test_nulls_without_a_value_of_the_tensor_are_refused(tmp_path: Path) -> None:
    lance_spark.write(pa.table({"i": pa.array([1, None])}), str(tmp_path / "n"))
    with pytest.raises(InvalidInputError, match="column i"):
        next(iter(lance_spark.torch.dataset(tmp_path / "n")))
    (batch,) = lance_spark.torch.dataset(tmp_path / "n", transform=lambda batch: batch.to_pydict())
    assert batch == {"i": [1, None]}


def test_invalid_arguments(uri: str) -> None:
    with pytest.raises(NotFoundError, match="missing"):
        lance_spark.torch.dataset(uri, ["missing"])
    with pytest.raises(InvalidInputError, match="belong together"):
        lance_spark.torch.dataset(uri, rank=1)
    with pytest.raises(InvalidInputError, match="is open"):
        lance_spark.torch.dataset(lance_spark.open(uri), version=1)
