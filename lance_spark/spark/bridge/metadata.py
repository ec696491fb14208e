"""Metadata tables: what is known of a table, as tables ``<table>.<kind>``. A table of that name hides them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from pyspark.sql.types import ArrayType, IntegerType, LongType, MapType, StringType, StructType

from lance_spark.spark.bridge.handles import TableHandle
from lance_spark.spark.bridge.local_rows import LocalRows, row_type
from lance_spark.spark.bridge.registry import Call, operation
from lance_spark.spark.bridge.table import LoadRequest, load
from lance_spark.spark.bridge.version_procedures import HISTORY, branch_rows, history_rows
from lance_spark.table.dataset import Dataset

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
    built_at_version=LongType(),
    num_fragments=LongType(),
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

_Rows = Iterable[tuple[object, ...]]


def _fragments(table: Dataset) -> _Rows:
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


def _files(table: Dataset) -> _Rows:
    names = {item.id: item.name for item in table.lance_schema.walk()}
    tops = {node.id: top.name for top in table.lance_schema.fields for node in top.walk()}
    for fragment in table.fragments:
        for file in fragment.files:
            columns = dict.fromkeys(tops[number] for number in file.fields if number in names)
            yield (fragment.id, file.path, file.version.value, file.size_bytes, list(columns), file.base_id)


def _indexes(table: Dataset) -> _Rows:
    names = {int(item.id): item.name for item in table.lance_schema.walk()}
    for index in table.indices():
        columns = [names.get(number, f"#{number}") for number in index.message.fields]
        known = len(index.fragment_ids()) if index.tells_coverage else None
        yield (index.name, index.uuid, columns, index.message.dataset_version, known)


def _refs(table: Dataset) -> _Rows:
    yield from ((row[0], "branch", row[0], row[3]) for row in branch_rows(table))
    yield from ((name, "tag", tag.branch or "main", tag.version) for name, tag in sorted(table.tags().items()))


def _transactions(table: Dataset) -> _Rows:
    for item in reversed(table.versions()):
        yield (
            item.version,
            item.transaction,
            item.read_version,
            item.operation,
            item.message,
            dict(item.properties),
        )


@dataclass(frozen=True, slots=True)
class _Kind:
    schema: StructType
    rows: Callable[[Dataset], _Rows]


_KINDS: Mapping[str, _Kind] = {
    "versions": _Kind(HISTORY, history_rows),
    "fragments": _Kind(_FRAGMENTS, _fragments),
    "files": _Kind(_FILES, _files),
    "indexes": _Kind(_INDEXES, _indexes),
    "refs": _Kind(_REFS, _refs),
    "transactions": _Kind(_TRANSACTIONS, _transactions),
}
_OF_PARTITIONED = "partitions"


@dataclass(frozen=True, slots=True)
class MetadataReply:
    """The metadata table, if the name is one."""

    found: bool
    handle: TableHandle | None = None
    name: str = ""
    kind: str = ""
    schema: StructType | None = None


@dataclass(frozen=True, slots=True)
class MetadataRequest:
    """The rows of a metadata table are asked for."""

    handle: TableHandle
    kind: str


@operation("metadata.load")
def load_metadata(request: LoadRequest, call: Call) -> MetadataReply:
    """The metadata table that a name means which is no table: its last part is the kind, the rest a table."""
    kind = request.name.lower()
    if not request.namespace or request.privileges or (kind not in _KINDS and kind != _OF_PARTITIONED):
        return MetadataReply(False)
    of = load(replace(request, namespace=request.namespace[:-1], name=request.namespace[-1]), call)
    if of.table is None or of.table.handle.partitioned != (kind == _OF_PARTITIONED):
        return MetadataReply(False)
    schema = _PARTITIONS if kind == _OF_PARTITIONED else _KINDS[kind].schema
    return MetadataReply(True, of.table.handle, f"{of.table.name}.{kind}", kind, schema)


@operation("metadata.rows")
def rows(request: MetadataRequest, _call: Call) -> LocalRows:
    """The rows of a metadata table."""
    if request.kind == _OF_PARTITIONED:
        return LocalRows.of(_PARTITIONS, _partitions(request.handle))
    found = _KINDS[request.kind]
    return LocalRows.of(found.schema, found.rows(Dataset(*request.handle.open())))


def _partitions(handle: TableHandle) -> _Rows:
    table = handle.open_partitioned()
    for item in table.open_all(table.partitions()):
        counts = item.manifest.fragments.row_counts()
        known = [count for count in counts if count is not None]
        (row,) = item.partition.values.to_pylist() or [{}]
        values = {name: None if value is None else str(value) for name, value in row.items()}
        yield (
            item.partition.object_id,
            values,
            item.partition.spec.id,
            sum(known) if len(known) == len(counts) else None,
            len(counts),
            item.manifest.version,
            item.table.uri,
        )
