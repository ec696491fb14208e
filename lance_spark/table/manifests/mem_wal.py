"""The MemWAL index of a version: a system index that says which rows of a write-ahead log the table has already.

Writers of the reference library log rows in shards below `_mem_wal/`, flush them to generations, and merge these into
the table. Rows of generations that are not merged are not in the table: reads do not return them. A version that
forgets which generations are merged, or lacks what the shards depend on, would lose rows or bring some back.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from google.protobuf.message import DecodeError

from lance_spark._proto import table_pb2
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.schema.field import LanceSchema
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.manifests.manifest import Manifest

MEM_WAL = "__lance_mem_wal"
"""The name of the index."""


def mem_wal_state(index: IndexMetadata) -> dict[str, Any]:
    """State of a MemWAL index, in the terms of the reference library.

    A dict: `num_shards`, `maintained_indexes` (names), `maintain_all_indexes`, `sharding_specs` (dicts), and two lists
    of pairs (shard, generation): `merged_generations`, and by index name `index_catchup`.

    Raises:
        CorruptFileError: it is broken.
    """
    details = _details(index)
    return {
        "num_shards": details.num_regions,
        "maintained_indexes": list(details.maintained_indexes),
        "maintain_all_indexes": details.maintain_all_indexes,
        "sharding_specs": [
            {
                "spec_id": spec.spec_id,
                "fields": [
                    {
                        "field_id": field.field_id,
                        "source_ids": list(field.source_ids),
                        "transform": field.transform if field.HasField("transform") else None,
                        "expression": field.expression if field.HasField("expression") else None,
                        "result_type": field.result_type,
                        "parameters": dict(field.parameters),
                    }
                    for field in spec.fields
                ],
            }
            for spec in details.region_specs
        ],
        "merged_generations": _generations(details.merged_generations),
        "index_catchup": {item.index_name: _generations(item.caught_up_generations) for item in details.index_catchup},
    }


def check_mem_wal_stays(previous: Manifest, new: Manifest) -> None:
    """Passes if `new`, which follows `previous`, has all that the shards of a MemWAL depend on.

    Raises:
        UnsupportedFeatureError: it lacks the MemWAL index or has another state of it, or lacks or changes a column of
            the primary key or of the sharding, or an index that the shards maintain, in the type that they know.
    """
    if MEM_WAL.encode() not in (previous.index_section or b""):
        return
    before, after = parse_indices(previous.index_section), parse_indices(new.index_section)
    index = next((item for item in before if item.name == MEM_WAL), None)
    if index is None:
        return
    details = index.message.index_details
    if not any(item.name == MEM_WAL and item.message.index_details == details for item in after):
        raise _refused("would replace the state of its write-ahead log")
    missing = sorted(_needed_columns(index, previous.schema) - _columns(new.schema))
    if missing:
        raise _refused(f"would change column {missing[0][1]!r}, which its write-ahead log depends on")
    maintained = set(_details(index).maintained_indexes)
    lost = sorted(kind for kind in _kinds(before) - _kinds(after) if kind[0] in maintained)
    if lost:
        raise _refused(f"would drop or replace index {lost[0][0]!r}, which its write-ahead log maintains")


def _refused(what: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"the operation {what}, and rows that are not merged yet could be lost; merge them with the library that "
        "writes them, and make a new table of the result",
        feature="MemWAL",
    )


def _needed_columns(index: IndexMetadata, schema: LanceSchema) -> set[tuple[int, str, str]]:
    details = _details(index)
    sources = {number for spec in details.region_specs for field in spec.fields for number in field.source_ids}
    return {
        (node.id, node.name, node.logical_type)
        for field in schema.fields
        for node in field.walk()
        if node.unenforced_primary_key or node.id in sources
    }


def _columns(schema: LanceSchema) -> set[tuple[int, str, str]]:
    return {(node.id, node.name, node.logical_type) for field in schema.fields for node in field.walk()}


def _kinds(indices: Iterable[IndexMetadata]) -> set[tuple[str, str]]:
    """The names and types of indexes."""
    return {(item.name, item.message.index_details.type_url.lower()) for item in indices}


def _generations(items: Iterable[table_pb2.MergedGeneration]) -> list[tuple[str, int]]:
    return [(str(uuid.UUID(bytes=item.region_id.uuid)), item.generation) for item in items]


def _details(index: IndexMetadata) -> table_pb2.MemWalIndexDetails:
    try:
        return table_pb2.MemWalIndexDetails.FromString(index.message.index_details.value)
    except DecodeError as error:
        raise CorruptFileError(f"not the state of a MemWAL: {error}") from error
