"""Metadata tables ``<table>.<kind>``. A table of that name takes precedence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from pyspark.sql.types import ArrayType, IntegerType, LongType, MapType, StringType, StructType

from lance_spark.partitioned.table import PartitionedTable
from lance_spark.spark.column_names import in_sql
from lance_spark.spark.connector.catalog.table import LoadRequest, load
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.registry import Call, operation
from lance_spark.spark.connector.procedures.version_procedures import HISTORY, MAIN, history_rows
from lance_spark.spark.connector.scan.local_rows import LocalRows, row_type
from lance_spark.spark.jobs.compaction_job import AnyDataset
from lance_spark.table.dataset import Dataset
from lance_spark.table.indexes.describe import summarize_segments
from lance_spark.table.source import TableSource

_FRAGMENTS = row_type(
    fragment_id=LongType(),
    num_rows=LongType(),
    physical_rows=LongType(),
    num_deleted_rows=LongType(),
    num_files=IntegerType(),
    num_bytes=LongType(),
)
_FILES = row_type(
    fragment_id=LongType(),
    path=StringType(),
    file_format_version=StringType(),
    size_bytes=LongType(),
    columns=ArrayType(StringType()),
    base_id=LongType(),
)
_INDEXES = row_type(
    name=StringType(),
    uuid=StringType(),
    columns=ArrayType(StringType()),
    index_type=StringType(),
    built_at_version=LongType(),
    num_fragments=LongType(),
    num_indexed_rows=LongType(),
    num_unindexed_rows=LongType(),
    size_bytes=LongType(),
)
_REFS = row_type(name=StringType(), type=StringType(), branch=StringType(), version=LongType())
_TRANSACTIONS = row_type(
    version=LongType(),
    transaction=StringType(),
    read_version=LongType(),
    operation=StringType(),
    message=StringType(),
    properties=MapType(StringType(), StringType()),
)
_PARTITIONS = row_type(
    partition=StringType(),
    values=MapType(StringType(), StringType()),
    spec_id=IntegerType(),
    num_rows=LongType(),
    num_fragments=LongType(),
    read_version=LongType(),
    location=StringType(),
)

MetadataRows = Iterable[tuple[object, ...]]


def _fragments(table: Dataset) -> MetadataRows:
    counts = table.fragments.row_counts()
    for message, count in zip(table.fragments.messages, counts, strict=True):
        yield (
            message.id,
            count,
            message.physical_rows or None,
            message.deletion_file.num_deleted_rows,
            len(message.files),
            sum(file.file_size_bytes for file in message.files),
        )


def _files(table: Dataset) -> MetadataRows:
    names = {item.id: item.name for item in table.lance_schema.walk()}
    tops = {node.id: top.name for top in table.lance_schema.fields for node in top.walk()}
    for fragment in table.fragments:
        for file in fragment.files:
            columns = dict.fromkeys(tops[number] for number in file.fields if number in names)
            yield (fragment.id, file.path, file.version.value, file.size_bytes, list(columns), file.base_id)


def _indexes(table: Dataset) -> MetadataRows:
    for found in summarize_segments(table.manifest, table.location.bases(table.manifest)):
        segment = found.segment
        yield (
            segment.name,
            segment.uuid,
            [in_sql(column) for column in found.columns],
            found.type_name.lower(),
            segment.message.dataset_version,
            len(segment.fragment_ids()) if segment.tells_coverage else None,
            found.num_indexed_rows,
            found.num_unindexed_rows,
            found.size_bytes,
        )


def _refs(table: AnyDataset, _limit: int | None) -> MetadataRows:
    yield (MAIN, "branch", MAIN, _newest(table, None))
    yield from ((name, "branch", name, _newest(table, name)) for name in sorted(table.branches()))
    yield from ((tag.name, "tag", tag.branch or MAIN, tag.version) for _, tag in sorted(table.tags().items()))


def _newest(table: AnyDataset, branch: str | None) -> int | None:
    """The newest version of a branch; None if it has none."""
    newest = table.versions_location.on_branch(branch).latest()
    return None if newest is None else newest.version


def _transactions(table: AnyDataset, limit: int | None) -> MetadataRows:
    for item in table.versions(limit, contents=False)[::-1]:
        yield (
            item.version,
            item.transaction,
            item.read_version,
            item.operation,
            item.message,
            dict(item.properties),
        )


_KINDS: Mapping[str, tuple[StructType, Callable[[AnyDataset, int | None], MetadataRows]]] = {
    "versions": (HISTORY, history_rows),
    "refs": (_REFS, _refs),
    "transactions": (_TRANSACTIONS, _transactions),
}
_NEWEST_FIRST = frozenset({"versions", "transactions"})
"""The kinds with one row per version, newest first, which read no more versions than a LIMIT needs."""

_KINDS_OF_PARTITION: Mapping[str, tuple[StructType, Callable[[Dataset], MetadataRows]]] = {
    "fragments": (_FRAGMENTS, _fragments),
    "files": (_FILES, _files),
    "indexes": (_INDEXES, _indexes),
}
"""The kinds that a partitioned table has per partition; an additional column identifies the partition."""

_OF_PARTITIONED = "partitions"


def _schema(kind: str, handle: TableHandle) -> StructType | None:
    """The columns of a metadata table, None if the table does not have one of this kind."""
    partitioned = handle.partitioned
    if kind == _OF_PARTITIONED:
        return _PARTITIONS if partitioned else None
    if kind in _KINDS:
        return _KINDS[kind][0]
    if kind not in _KINDS_OF_PARTITION:
        return None
    schema = _KINDS_OF_PARTITION[kind][0]
    return StructType([*row_type(partition=StringType()).fields, *schema.fields]) if partitioned else schema


@dataclass(frozen=True, slots=True)
class MetadataReply:
    """The metadata table, if the name is one.

    Attributes:
        newest_first: whether its rows are versions, newest first, so that pushing a LIMIT helps.
        pinned: whether the query has chosen the version.
    """

    found: bool
    handle: TableHandle | None = None
    name: str = ""
    kind: str = ""
    schema: StructType | None = None
    newest_first: bool = False
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class MetadataRequest:
    """A request for the rows of a metadata table.

    Attributes:
        limit: the maximum number of rows needed.
    """

    handle: TableHandle
    kind: str
    limit: int | None = None


@operation("metadata.load")
def load_metadata(request: LoadRequest, call: Call) -> MetadataReply:
    """The metadata table of a name without a table of its own: its last part is the kind, the rest a table."""
    kind = request.name if request.catalog.case_sensitive else request.name.lower()
    if not request.namespace or request.privileges or kind not in (*_KINDS, *_KINDS_OF_PARTITION, _OF_PARTITIONED):
        return MetadataReply(False)
    of = load(replace(request, namespace=request.namespace[:-1], name=request.namespace[-1]), call)
    if of.table is None:
        return MetadataReply(False)
    schema = _schema(kind, of.table.handle)
    if schema is None:
        return MetadataReply(False)
    name = f"{of.table.name}.{kind}"
    return MetadataReply(True, of.table.handle, name, kind, schema, kind in _NEWEST_FIRST, of.table.pinned)


@operation("metadata.rows")
def rows(request: MetadataRequest, _call: Call) -> LocalRows:
    """The rows of a metadata table."""
    table, kind = request.handle.dataset(), request.kind
    schema = _schema(kind, request.handle)
    assert schema is not None, "it was loaded"
    if kind in _KINDS:
        return LocalRows.of(schema, _KINDS[kind][1](table, request.limit))
    if kind == _OF_PARTITIONED:
        return LocalRows.of(schema, _partitions(request.handle.open_partitioned()))
    return LocalRows.of(schema, _of_splits(table, _KINDS_OF_PARTITION[kind][1]))


def _of_splits(table: TableSource, of_one: Callable[[Dataset], MetadataRows]) -> MetadataRows:
    """The rows of each split; those of partitions begin with the partition's key."""
    for split in table.splits():
        key = () if split.key is None else (split.key,)
        yield from ((*key, *row) for row in of_one(Dataset(split.table, split.manifest)))


def _partitions(table: PartitionedTable) -> MetadataRows:
    for item in table.partitions_with_rows():
        counts = item.manifest.fragments.row_counts()
        known = [count for count in counts if count is not None]
        named = item.partition.named_values().items()
        values = {name: None if value is None else str(value) for name, value in named}
        yield (
            item.partition.object_id,
            values,
            item.partition.spec.id,
            sum(known) if len(known) == len(counts) else None,
            len(counts),
            item.manifest.version,
            item.table.uri,
        )
