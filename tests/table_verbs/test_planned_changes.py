"""Members of `TableSource` and verbs by which planners change tables: the same for plain and partitioned ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lance_spark.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.partitioned.access import find_table
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.schema.evolution import with_added
from lance_spark.schema.field import LanceSchema
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.compaction_setting import AutoCompaction
from tests.table_verbs.kinds import ROWS, Kind, content


def place(dataset: Any) -> TableLocation:
    return TableLocation(dataset.uri)


def with_column(schema: LanceSchema, first_id: int) -> LanceSchema:
    return with_added(schema, pa.schema([pa.field("added", pa.int32())]), first_id).schema


def test_members(dataset: Any) -> None:
    assert dataset.branch is None
    assert dataset.branches() == {}
    assert dataset.versions_manifest.version == dataset.version
    assert dataset.versions_manifest.timestamp == dataset.timestamp
    assert dataset.has_split_keys is isinstance(dataset, PartitionedDataset)
    assert all((split.key is not None) is dataset.has_split_keys for split in dataset.splits())
    assert dataset.config.items() <= dataset.properties.items()
    assert dataset.update_config({"owner": "me"}).config["owner"] == "me"


def test_digest_is_that_of_the_data(kind: Kind, dataset: Any) -> None:
    assert dataset.update_config({"owner": "me"}).data_digest == dataset.data_digest
    assert kind.open(dataset).data_digest == dataset.data_digest
    assert kind.append(dataset, (6, "a", 60)).data_digest != dataset.data_digest


def test_tables_are_found_by_their_place(kind: Kind, dataset: Any) -> None:
    before, dataset = dataset, kind.append(dataset, (6, "a", 60))
    dataset.create_tag("first", before.version)
    for found in (find_table(place(dataset)), find_table(place(dataset), version=dataset.version)):
        assert found is not None
        assert type(found) is type(dataset)
        assert content(found) == sorted([*ROWS, (6, "a", 60)], key=str)
    for choice in ({"version": before.version}, {"tag": "first"}, {"timestamp": before.timestamp}):
        found = find_table(place(dataset), **choice)
        assert found is not None
        assert found.version == before.version
    with pytest.raises(NotFoundError):
        find_table(place(dataset), version=99)
    assert find_table(TableLocation("memory://no-table-here")) is None
    assert find_table(TableLocation("memory://no-table-here"), version=1) is None


def test_newest_version_of_a_branch(kind: Kind, dataset: Any) -> None:
    kind.append(dataset, (6, "a", 60))
    assert dataset.on_branch(None).version == dataset.version + 1
    error = UnsupportedFeatureError if isinstance(dataset, PartitionedDataset) else NotFoundError
    with pytest.raises(error, match="branch"):
        dataset.on_branch("b")
    if not isinstance(dataset, PartitionedDataset):
        dataset.create_branch("b")
        assert content(dataset.on_branch("b")) == content(dataset)
        assert dataset.on_branch("b").branch == "b"
        assert list(dataset.branches()) == ["b"]


def test_versions_without_contents(dataset: Any) -> None:
    listed = dataset.versions(contents=False)
    assert [item.version for item in listed] == [item.version for item in dataset.versions()]
    assert [(item.content, item.difference) for item in listed] == [(None, None)] * len(listed)


def test_columns_are_edited_in_one_version(kind: Kind, dataset: Any) -> None:
    def edit(schema: LanceSchema, first_id: int) -> LanceSchema:
        schema = with_column(schema, first_id)
        return LanceSchema(
            tuple(replace(item, name="w") if item.name == "v" else item for item in schema.fields), schema.metadata
        )

    planned = dataset.with_edited_columns(edit)
    assert list(planned.lance_schema.names()) == ["id", "p", "w", "added"]
    assert list(kind.open(dataset).lance_schema.names()) == ["id", "p", "v"]
    made = dataset.edit_columns(edit)
    assert (made.version, made.lance_schema) == (dataset.version + 1, planned.lance_schema)
    assert made.edit_columns(lambda schema, _: schema).version == made.version
    kind.check(made, [(*row, None) for row in ROWS])


def test_properties_and_metadata_of_columns_change_in_one_version(kind: Kind, dataset: Any) -> None:
    column = dataset.lance_schema.fields[2].id
    made = dataset.update_properties({"owner": "me"}, lambda _: {column: {"comment": "value"}})
    assert (made.version, made.config["owner"]) == (dataset.version + 1, "me")
    assert made.lance_schema.fields[2].metadata["comment"] == b"value"
    assert made.update_properties({"owner": "me"}, lambda _: {}).version == made.version
    again = made.update_properties({"owner": None}, lambda _: {column: {"comment": None}})
    assert "owner" not in again.config
    assert "comment" not in again.lance_schema.fields[2].metadata
    kind.check(again, ROWS)


def test_check_constraints(dataset: Any) -> None:
    with pytest.raises(InvalidInputError, match="violates the CHECK constraint"):
        dataset.add_check("small", "v < 40")
    made = dataset.add_check("known", "id > 0")
    with pytest.raises(InvalidInputError, match="violates the CHECK constraint"):
        made.append(pa.table({"id": [0], "p": ["a"], "v": pa.array([1], pa.int32())}))
    with pytest.raises(NotFoundError):
        made.drop_check("other")
    assert made.drop_check("KNOWN").append(pa.table({"id": [0], "p": ["a"], "v": pa.array([1], pa.int32())}))


def test_small_fragments_are_compacted(kind: Kind, dataset: Any) -> None:
    for number in (6, 7):
        dataset = kind.append(dataset, (number, "a", number))
    assert dataset.compact_small_fragments(AutoCompaction(50)) is dataset
    made = dataset.compact_small_fragments(AutoCompaction(2))
    assert made.version > dataset.version
    kind.check(made, [*ROWS, (6, "a", 6), (7, "a", 7)])


def test_segments_of_all_splits_are_committed_together(dataset: Any) -> None:
    arguments = ("id", "btree", "by_id")
    if dataset.has_split_keys:
        new = {split.key: [dataset.build_index_segment(*arguments, partition=split.key)] for split in dataset.splits()}
    else:
        new = {None: [dataset.build_index_segment(*arguments)]}
    made = dataset.commit_segments(new)
    assert made.version == dataset.version + 1
    assert made.index_statistics("by_id")["num_indexed_rows"] == len(ROWS)
    assert (made.recorded_index("by_id") is not None) is dataset.has_split_keys
    old = {key: {item.uuid for item in segments} for key, segments in new.items()}
    if dataset.has_split_keys:
        new = {split.key: [made.build_index_segment(*arguments, partition=split.key)] for split in made.splits()}
    else:
        new = {None: [made.build_index_segment(*arguments)]}
    again = made.commit_segments(new, old)
    assert again.index_statistics("by_id")["num_segments"] == made.index_statistics("by_id")["num_segments"]
    assert {item["uuid"] for item in again.list_indices()}.isdisjoint(set().union(*old.values()))
