"""An index of a partitioned table outlives the partitions that have it."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from lance_spark.index.builders.base import Parameters
from lance_spark.partitioned.dataset import PartitionedDataset, create_partitioned_dataset, open_partitioned_dataset
from lance_spark.partitioned.properties import set_properties
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity

KINDS: dict[str, tuple[str, Parameters]] = {
    "BTREE": ("x", {"zone_size": 100}),
    "BITMAP": ("k", {}),
    "LABEL_LIST": ("tags", {}),
    "ZONEMAP": ("x", {}),
    "INVERTED": ("k", {"with_position": True, "custom_stop_words": ["of"]}),
    "IVF_FLAT": ("v", {"num_partitions": 2}),
}


def rows() -> pa.Table:
    numbers = range(400)
    return pa.table(
        {
            "p": pa.array([number % 2 for number in numbers], pa.int32()),
            "x": pa.array([number * 7919 % 400 for number in numbers], pa.int64()),
            "k": [f"name {number % 40}" for number in numbers],
            "tags": [[number % 3, number % 5] for number in numbers],
            "v": pa.array([[number % 7, number % 11] for number in numbers], pa.list_(pa.float32(), 2)),
        }
    )


def created(root: Path) -> PartitionedDataset:
    dataset = create_partitioned_dataset(str(root), rows().schema, [PartitionBy("p", ("p",), Identity())])
    return dataset.append(rows())


@pytest.mark.parametrize("kind", KINDS)
def test_partitions_that_come_after_all_were_removed_get_the_index(tmp_path: Path, kind: str) -> None:
    column, parameters = KINDS[kind]
    created(tmp_path).create_scalar_index(column, kind, "mine", **parameters)
    emptied = open_partitioned_dataset(str(tmp_path)).delete("p >= 0")
    assert not emptied.index.partitions
    found = emptied.index_statistics("mine")
    assert (found["num_segments"], found["num_unindexed_rows"]) == (0, 0)
    assert emptied.optimize_indices("mine").version == emptied.version

    reloaded = emptied.append(rows())
    assert reloaded.index_statistics("mine")["num_unindexed_rows"] == 400
    built = open_partitioned_dataset(str(tmp_path)).optimize_indices()
    statistics = built.index_statistics("mine")
    assert (statistics["index_type"], statistics["num_indexed_rows"]) == (found["index_type"], 400)
    assert {index["name"] for index in built.list_indices()} == {"mine"}
    if kind == "BTREE":
        assert "\nindex: " in built.explain("x = 17")
        assert built.to_table(["k"], "x = 17").equals(built.to_table(["k"], "x = 17", use_scalar_index=False))


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_is_created_before_there_are_rows(tmp_path: Path, kind: str) -> None:
    column, parameters = KINDS[kind]
    empty = create_partitioned_dataset(str(tmp_path), rows().schema, [PartitionBy("p", ("p",), Identity())])
    indexed = empty.create_scalar_index(column, kind, "mine", **parameters)
    assert (indexed.version, indexed.index_columns()) == (empty.version + 1, {"mine": [column]})
    assert indexed.index_statistics("mine")["num_segments"] == 0
    built = open_partitioned_dataset(str(tmp_path)).append(rows()).optimize_indices()
    assert built.index_statistics("mine")["num_indexed_rows"] == 400
    assert built.index_columns() == {"mine": [column]}


def test_wrong_indexes_of_tables_without_rows_are_refused(tmp_path: Path) -> None:
    empty = create_partitioned_dataset(str(tmp_path), rows().schema, [PartitionBy("p", ("p",), Identity())])
    indexed = empty.create_scalar_index("x", "BTREE")
    with pytest.raises(AlreadyExistsError, match="x_idx"):
        indexed.create_scalar_index("x", "BTREE", replace=False)
    with pytest.raises(InvalidInputError, match="another column"):
        indexed.create_scalar_index("k", "BTREE", "x_idx")
    with pytest.raises(NotFoundError, match="nothing"):
        indexed.create_scalar_index("nothing", "BTREE")
    with pytest.raises(InvalidInputError, match="LABEL_LIST"):
        indexed.create_scalar_index("x", "LABEL_LIST")
    with pytest.raises(InvalidInputError, match="keeps no arrays"):
        indexed.create_scalar_index("v", "IVF_FLAT", ivf_centroids=pa.array([[0, 0]], pa.list_(pa.float32(), 2)))
    assert indexed.create_scalar_index("x", "ZONEMAP").index_columns() == {"x_idx": ["x"], "x_idx_2": ["x"]}


@pytest.mark.parametrize("parameters", [{"num_segments": 2}, {"train": False}])
def test_parameters_of_all_kinds(tmp_path: Path, parameters: Parameters) -> None:
    built = created(tmp_path).create_scalar_index("x", "BTREE", "mine", **parameters)
    assert built.index_columns() == {"mine": ["x"]}


def test_an_overwrite_keeps_what_the_index_is_over(tmp_path: Path) -> None:
    created(tmp_path).create_scalar_index("x", "BTREE", "mine")
    replaced = open_partitioned_dataset(str(tmp_path)).overwrite(rows())
    assert replaced.list_indices() == []
    assert replaced.optimize_indices().index_statistics("mine")["num_indexed_rows"] == 400


def test_the_parameters_are_those_of_the_index(tmp_path: Path) -> None:
    parameters = {"with_position": True, "custom_stop_words": ["name"]}
    created(tmp_path).create_scalar_index("k", "INVERTED", **parameters)
    built = open_partitioned_dataset(str(tmp_path)).delete("p >= 0").append(rows()).optimize_indices()
    assert built.search("name").num_rows == 0
    assert built.search("7").num_rows == 10


def test_a_dropped_index_does_not_come_back(tmp_path: Path) -> None:
    created(tmp_path).create_scalar_index("x", "BTREE", "mine")
    open_partitioned_dataset(str(tmp_path)).drop_index("mine").delete("p >= 0")
    reloaded = open_partitioned_dataset(str(tmp_path)).append(rows()).optimize_indices()
    assert reloaded.list_indices() == []
    with pytest.raises(NotFoundError, match="mine"):
        reloaded.index_statistics("mine")


def test_an_index_that_no_partition_has_can_be_dropped(tmp_path: Path) -> None:
    created(tmp_path).create_scalar_index("x", "BTREE", "mine")
    emptied = open_partitioned_dataset(str(tmp_path)).delete("p >= 0").drop_index("mine")
    with pytest.raises(NotFoundError, match="mine"):
        emptied.drop_index("mine")
    assert emptied.append(rows()).optimize_indices().list_indices() == []


def test_an_index_of_pylance_is_recorded_by_the_first_optimization(tmp_path: Path) -> None:
    dataset = created(tmp_path)
    for item in dataset.open_all(dataset.index.partitions):
        path = str(tmp_path / item.partition.location)
        lance.dataset(path).create_scalar_index("x", "BTREE", name="theirs")
        lance.dataset(str(tmp_path / "__manifest")).update(
            {"read_version": str(lance.dataset(path).version)}, where=f"location = '{item.partition.location}'"
        )
    grown = open_partitioned_dataset(str(tmp_path)).append(rows()).optimize_indices()
    built = grown.delete("p >= 0").append(rows()).optimize_indices()
    assert built.index_statistics("theirs")["num_indexed_rows"] == 400


def test_a_dropped_column_has_no_index(tmp_path: Path) -> None:
    created(tmp_path).create_scalar_index("x", "BTREE", "mine")
    dropped = open_partitioned_dataset(str(tmp_path)).delete("p >= 0").drop_columns(["x"])
    with pytest.raises(NotFoundError, match="mine"):
        dropped.index_statistics("mine")
    assert dropped.append(rows().drop_columns(["x"])).optimize_indices().list_indices() == []


@pytest.mark.slow
def test_definitions_are_no_properties_of_users(tmp_path: Path) -> None:
    dataset = created(tmp_path).create_scalar_index("x", "BTREE", "mine")
    assert "lance.index_definition.mine" in dataset.properties
    assert not any("index" in name for name in dataset.config)
    with pytest.raises(InvalidInputError, match="cannot be set"):
        set_properties(dataset, {"lance.index_definition.mine": None})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"field": 1, "kind": "NONE", "parameters": {}}', "null"])
def test_a_damaged_definition_is_left_out(tmp_path: Path, text: str) -> None:
    dataset = created(tmp_path).create_scalar_index("x", "BTREE", "mine").delete("p >= 0")
    catalog = lance.dataset(str(tmp_path / "__manifest"))
    catalog.update_metadata({"lance.index_definition.mine": text})
    damaged = open_partitioned_dataset(str(tmp_path))
    assert damaged.version > dataset.version
    assert damaged.append(rows()).optimize_indices().list_indices() == []


def test_pylance_opens_the_catalog(tmp_path: Path) -> None:
    created(tmp_path).create_scalar_index("x", "BTREE", "mine").delete("p = 0")
    catalog = lance.dataset(str(tmp_path / "__manifest"))
    assert "lance.index_definition.mine" in catalog.metadata
    assert catalog.count_rows() > 0
