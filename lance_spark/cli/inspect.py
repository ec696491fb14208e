"""`inspect`: what a version of a table is made of. Without `pages`, metadata alone is read and no data file opened."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message

from lance_spark._proto import encodings_v2_0_pb2, encodings_v2_1_pb2
from lance_spark.cli.opening import CommandTarget
from lance_spark.cli.output import TreeNode
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.file.data_file_reader import DataFileReader
from lance_spark.file.metadata import parse_message
from lance_spark.file.open_file import open_data_file
from lance_spark.file.reader import FileReader
from lance_spark.file.v0_1_reader import V01FileReader
from lance_spark.layouts.base import EncodedPage
from lance_spark.schema.field import Field
from lance_spark.table.dataset import Dataset
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.rows.fragment import DataFile, DataFragment

_KINDS: dict[str, type[Message]] = {
    "lance.encodings.ArrayEncoding": encodings_v2_0_pb2.ArrayEncoding,
    "lance.encodings21.PageLayout": encodings_v2_1_pb2.PageLayout,
}

_ENCODINGS_0_1 = {0: "none", 1: "plain", 2: "var_binary", 3: "dictionary", 4: "rle"}


def describe(target: CommandTarget, *, fragments: bool, pages: bool) -> dict[str, Any]:
    """The document of a version; keys as in docs/reference/command-line.md."""
    document = _describe_table(target.dataset, fragments=fragments, pages=pages)
    document["uri"] = target.uri
    document["partitioning"] = _partitioning(target, fragments=fragments, pages=pages)
    return document


def _describe_table(dataset: Dataset, *, fragments: bool, pages: bool) -> dict[str, Any]:
    manifest = dataset.manifest
    return {
        "uri": dataset.uri,
        "branch": dataset.branch,
        "version": dataset.version,
        "timestamp": dataset.timestamp.isoformat(),
        "writer": None
        if manifest.writer_version is None
        else f"{manifest.writer_version.library} {manifest.writer_version.version}",
        "file_version": None if manifest.file_version is None else manifest.file_version.value,
        "stable_row_ids": manifest.has_stable_row_ids,
        "versions": sorted({location.version for location in dataset.location.history.locations()}),
        "branches": [
            {"name": branch.name, "parent": branch.parent, "parent_version": branch.parent_version}
            for branch in dataset.branches().values()
        ],
        "tags": [{"name": tag.name, "version": tag.version, "branch": tag.branch} for tag in dataset.tags().values()],
        "schema": [describe_field(field) for field in dataset.lance_schema.walk()],
        "base_paths": [
            {"id": base.id, "name": base.name, "path": base.path, "is_dataset_root": base.is_dataset_root}
            for base in manifest.base_paths
        ],
        "indexes": [_describe_index(index, dataset) for index in parse_indices(manifest.index_section)],
        "summary": _summary(dataset),
        "fragments": [_describe_fragment(item, dataset, pages) for item in dataset.fragments] if fragments else None,
    }


def describe_field(field: Field) -> dict[str, Any]:
    """A column of the schema, without its children."""
    return {
        "id": field.id,
        "name": field.name,
        "type": field.logical_type,
        "nullable": field.nullable,
        "children": [child.id for child in field.children],
    }


def _describe_index(index: IndexMetadata, dataset: Dataset) -> dict[str, Any]:
    covered = index.fragment_ids()
    present = {message.id for message in dataset.fragments.messages}
    return {
        "name": index.name,
        "uuid": index.uuid,
        "fields": sorted(index.fields),
        "covered_fragments": len(present.intersection(covered)) if index.tells_coverage else None,
        "base_id": index.base_id,
    }


def _summary(dataset: Dataset) -> dict[str, Any]:
    """Totals, from the wire messages: 100,000 fragments need not be parsed one by one for them."""
    messages = dataset.fragments.messages
    counts = dataset.fragments.row_counts()
    recorded = [count for count in counts if count is not None]
    return {
        "fragments": len(messages),
        "data_files": sum(len(message.files) for message in messages),
        "deletion_files": sum(message.HasField("deletion_file") for message in messages),
        "rows": sum(recorded) if len(recorded) == len(counts) else None,
        "deleted_rows": _recorded(
            message.deletion_file.num_deleted_rows for message in messages if message.HasField("deletion_file")
        ),
        "bytes": _recorded(file.file_size_bytes for message in messages for file in message.files),
    }


def _recorded(numbers: Iterable[int]) -> int | None:
    """The sum; None if one of them is 0, which old writers leave for what they do not record."""
    values = list(numbers)
    return sum(values) if all(values) else None


def _describe_fragment(fragment: DataFragment, dataset: Dataset, pages: bool) -> dict[str, Any]:
    deletions = fragment.deletion_file
    return {
        "id": fragment.id,
        "physical_rows": fragment.physical_rows,
        "rows": fragment.num_rows,
        "files": [_describe_file(file, dataset, pages) for file in fragment.files],
        "deletion_file": None
        if deletions is None
        else {
            "path": deletions.path(fragment.id),
            "type": deletions.file_type.name.lower(),
            "deleted_rows": deletions.num_deleted_rows,
            "base_id": deletions.base_id,
        },
    }


def _describe_file(file: DataFile, dataset: Dataset, pages: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "path": file.path,
        "file_version": file.version.value,
        "bytes": file.size_bytes,
        "fields": list(file.fields),
        "base_id": file.base_id,
        "columns": None,
    }
    if pages:
        bases = dataset.location.bases(dataset.manifest)
        with bases.reading():
            store, path = bases.data_file(file)
            document["columns"] = describe_columns(open_data_file(store, path))
    return document


def _partitioning(target: CommandTarget, *, fragments: bool, pages: bool) -> dict[str, Any] | None:
    table = target.partitioned
    if table is None:
        return None
    return {
        "schema": [describe_field(field) for field in table.lance_schema.walk()],
        "specs": [
            {
                "id": spec.id,
                "fields": [
                    {
                        "field_id": field.field_id,
                        "source_ids": list(field.source_ids),
                        "transform": None if field.transform is None else str(field.transform),
                        "expression": field.expression,
                    }
                    for field in spec.fields
                ],
            }
            for spec in table.specs.specs
        ],
        "num_partitions": table.num_partitions,
        # Each partition's manifest is a request of its own, so they are read only when they are asked for.
        "partitions": [
            {
                "spec": partition.spec.id,
                "values": {name: str(value) for name, value in partition.named_values().items()},
                "location": partition.location,
                "table": _describe_table(dataset, fragments=True, pages=pages),
            }
            for partition, dataset in target.partitions()
        ]
        if fragments
        else None,
    }


def inspect_tree(document: dict[str, Any]) -> TreeNode:
    """The tree that is printed."""
    root = TreeNode(f"{document['uri']} version {document['version']}")
    _add_table(root, document)
    partitioning = document["partitioning"]
    if partitioning is not None:
        _add_partitioning(root.add(f"partitioned: {partitioning['num_partitions']} partitions"), partitioning)
    return root


def _add_table(root: TreeNode, table: dict[str, Any]) -> None:
    summary = table["summary"]
    root.add(f"committed {table['timestamp']} by {table['writer'] or 'an unknown writer'}")
    root.add(f"branch {table['branch'] or 'main'}, file version {table['file_version'] or 'not recorded'}")
    root.add(", ".join(f"{key.replace('_', ' ')} {_shown(value)}" for key, value in summary.items()))
    numbers = table["versions"]
    root.add(f"versions: {len(numbers)}" + (f" ({numbers[0]} to {numbers[-1]})" if numbers else ""))
    lists = {
        "branches": [
            f"{item['name']} from {item['parent'] or 'main'} {item['parent_version']}" for item in table["branches"]
        ],
        "tags": [f"{item['name']}: {item['branch'] or 'main'} {item['version']}" for item in table["tags"]],
        "schema": [_field_line(field) for field in table["schema"]],
        "base paths": [f"{item['id']}: {item['path']} {item['name'] or ''}".rstrip() for item in table["base_paths"]],
        "indexes": [
            f"{item['name']} over fields {item['fields']}, covers {_shown(item['covered_fragments'])} fragments"
            for item in table["indexes"]
        ],
    }
    for title, lines in lists.items():
        if lines:
            node = root.add(title)
            for line in lines:
                node.add(line)
    if table["fragments"] is not None:
        node = root.add("fragments")
        for fragment in table["fragments"]:
            _add_fragment(node, fragment)


def _field_line(field: dict[str, Any]) -> str:
    return f"{field['id']} {field['name']}: {field['type']}" + ("" if field["nullable"] else " not null")


def _add_fragment(parent: TreeNode, fragment: dict[str, Any]) -> None:
    node = parent.add(
        f"fragment {fragment['id']}: rows {_shown(fragment['rows'])} of {_shown(fragment['physical_rows'])}"
    )
    for file in fragment["files"]:
        child = node.add(f"{file['path']}: version {file['file_version']}, bytes {_shown(file['bytes'])}")
        for column in file["columns"] or ():
            branch = child.add(f"column {column['column']}: {column['name']} (field {column['field_id']})")
            for number, page in enumerate(column["pages"]):
                names = " > ".join(page["encodings"])
                branch.add(f"page {number}: rows {page['rows']}, bytes {_shown(page['bytes'])}, {names}")
    deletions = fragment["deletion_file"]
    if deletions is not None:
        node.add(f"{deletions['path']}: {_shown(deletions['deleted_rows'])} deleted rows")


def _add_partitioning(root: TreeNode, partitioning: dict[str, Any]) -> None:
    columns = root.add("schema")
    for field in partitioning["schema"]:
        columns.add(_field_line(field))
    for spec in partitioning["specs"]:
        fields = ", ".join(
            f"{f['field_id']} = {f['transform'] or f['expression']} of {f['source_ids']}" for f in spec["fields"]
        )
        root.add(f"spec {spec['id']}: {fields}")
    for partition in partitioning["partitions"] or ():
        values = ", ".join(f"{key}={value}" for key, value in partition["values"].items())
        _add_table(root.add(f"{partition['location']}: spec {partition['spec']}, {values}"), partition["table"])


def _shown(value: object) -> str:
    return "not recorded" if value is None else str(value)


def describe_columns(reader: DataFileReader) -> list[dict[str, Any]]:
    """The columns of an open file with their pages; keys as in docs/reference/command-line.md.

    Raises:
        CorruptFileError: the metadata contradicts the format.
        UnsupportedFeatureError: a page of an encoding that this release does not know.
    """
    if isinstance(reader, V01FileReader):
        return _columns_of_v0_1(reader)
    if not isinstance(reader, FileReader):
        raise UnsupportedFeatureError(f"{reader.path}: pages of version {reader.version.value} are not listed")
    names = {node.id: node.name for node in reader.schema.walk()}
    return [
        {
            "column": column.index,
            "field_id": field_id,
            "name": names[field_id],
            "pages": [_page(page) for page in column.pages],
        }
        for field_id, column in zip(reader.columns, reader.encoded_columns(), strict=True)
    ]


def _page(page: EncodedPage) -> dict[str, Any]:
    name = page.type_url.rsplit("/", 1)[-1]
    kind = _KINDS.get(name)
    names = [name] if kind is None else encoding_names(parse_message(kind, page.message, "a page's encoding"))
    return {
        "rows": page.num_rows,
        "encodings": names,
        "bytes": sum(buffer.size for buffer in page.buffers),
        "buffers": len(page.buffers),
    }


def encoding_names(message: Message) -> list[str]:
    """The layout and the encodings that a message nests, outermost first, by their names in the format's messages."""
    names = [name for group in message.DESCRIPTOR.oneofs if (name := message.WhichOneof(group.name)) is not None]
    # An optional scalar is a group of its own and no encoding.
    result = [name for name in names if message.DESCRIPTOR.fields_by_name[name].message_type is not None]
    for field, value in message.ListFields():
        if field.name == "dictionary" and field.containing_oneof is None:
            result.append(field.name)
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            parts = [value] if isinstance(value, Message) else list(value)
            result.extend(name for part in parts if not isinstance(part, AnyMessage) for name in encoding_names(part))
    return result


def _columns_of_v0_1(reader: V01FileReader) -> list[dict[str, Any]]:
    # A page a row group; the file does not record sizes of pages.
    rows = [stop - start for start, stop in pairwise(reader.row_group_offsets.tolist())]
    fields = {field.id: field for field in reader.schema.walk()}
    return [
        {
            "column": index,
            "field_id": field_id,
            "name": fields[field_id].name,
            "pages": [
                {
                    "rows": count,
                    "encodings": [_ENCODINGS_0_1.get(fields[field_id].encoding, str(fields[field_id].encoding))],
                    "bytes": None,
                    "buffers": None,
                }
                for count in rows
            ],
        }
        for field_id, index in reader.columns.items()
    ]
