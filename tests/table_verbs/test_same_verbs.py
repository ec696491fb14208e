"""Both kinds of table have the same public methods and properties, but for the differences listed here."""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Any

from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.table.dataset import Dataset

ONLY_PLAIN = {
    "create_text_index": "text indexes are built for plain tables only; both kinds search with and without them",
    "fragments": "each partition has fragments of its own: splits() gives the partitions",
    "get_fragment": "as fragments",
    "get_fragments": "as fragments",
    "indices": "each partition has entries of its own: list_indices() describes the indexes of both kinds",
    "metadata": "a partitioned table keeps its columns and specs there; user properties are in config",
}

ONLY_PARTITIONED = {
    "commit_index_segments": "segments of several partitions are committed together; plain tables: commit_indices",
    "covered_partitions": "partitions",
    "index": "partitions, by key and by filter",
    "location": "the place of one partition; an attribute of plain tables, where it is the place of the table",
    "num_partitions": "partitions",
    "of": "adds the verbs to a PartitionedTable",
    "open": "opens one partition",
    "open_all": "opens partitions",
    "partitions": "partitions",
    "partitions_with_rows": "partitions",
    "rows": "the rows of __manifest, which list the partitions",
    "searched_filter": "what remains of a filter within one partition",
    "summary": "counts of one partition",
}

OTHER_ARGUMENTS = {
    "build_index_segment": "names the partition whose segment is built",
    "compact": "a filter chooses partitions",
    "estimate_compaction": "a filter chooses partitions",
    "plan": "plans the scan of one partition",
}


def _public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def _arguments(verb: Any) -> list[tuple[str, Any, Any]]:
    parameters: list[Parameter] = list(signature(verb).parameters.values())
    return [(item.name, item.kind, item.default) for item in parameters]


def test_both_kinds_have_the_same_verbs() -> None:
    plain, partitioned = _public(Dataset), _public(PartitionedDataset)
    assert plain - partitioned == set(ONLY_PLAIN)
    assert partitioned - plain == set(ONLY_PARTITIONED)


def test_verbs_of_both_kinds_have_the_same_arguments() -> None:
    shared = _public(Dataset) & _public(PartitionedDataset)
    verbs = [(name, getattr(Dataset, name), getattr(PartitionedDataset, name)) for name in shared]
    different = {
        name for name, plain, partitioned in verbs if callable(plain) and _arguments(plain) != _arguments(partitioned)
    }
    assert different == set(OTHER_ARGUMENTS)
    assert all(callable(plain) == callable(partitioned) for _, plain, partitioned in verbs)
