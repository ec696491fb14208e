"""The columns and pages of a data file, from its metadata; no values are read."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message

from lance_spark._proto import encodings_v2_0_pb2, encodings_v2_1_pb2
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.file.data_file_reader import DataFileReader
from lance_spark.file.metadata import parse_message
from lance_spark.file.reader import FileReader
from lance_spark.file.v0_1_reader import V01FileReader
from lance_spark.layouts.base import EncodedPage

_KINDS: dict[str, type[Message]] = {
    "lance.encodings.ArrayEncoding": encodings_v2_0_pb2.ArrayEncoding,
    "lance.encodings21.PageLayout": encodings_v2_1_pb2.PageLayout,
}

_ENCODINGS_0_1 = {0: "none", 1: "plain", 2: "var_binary", 3: "dictionary", 4: "rle"}


def describe_columns(reader: DataFileReader) -> list[dict[str, Any]]:
    """The columns of an open file with their pages; keys as in docs/command-line.md.

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
    found = [name for name in names if message.DESCRIPTOR.fields_by_name[name].message_type is not None]
    for field, value in message.ListFields():
        if field.name == "dictionary" and field.containing_oneof is None:
            found.append(field.name)
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            parts = [value] if isinstance(value, Message) else list(value)
            found.extend(name for part in parts if not isinstance(part, AnyMessage) for name in encoding_names(part))
    return found


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
