"""Metadata of data files written by the reference library holds nothing that our messages do not name."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from google.protobuf import any_pb2
from google.protobuf.message import Message

from lance_spark._proto import (
    encodings_v2_0_pb2,
    encodings_v2_1_pb2,
    file2_pb2,
    file_pb2,
    index_details_pb2,
    index_pb2,
    rowids_pb2,
    table_pb2,
)
from tests.support import arrays
from tests.support.proto.messages import unknown_members

PAGES: dict[str, tuple[str, type[Message]]] = {
    "2.0": ("/lance.encodings.ArrayEncoding", encodings_v2_0_pb2.ArrayEncoding),
    "2.1": ("/lance.encodings21.PageLayout", encodings_v2_1_pb2.PageLayout),
    "2.2": ("/lance.encodings21.PageLayout", encodings_v2_1_pb2.PageLayout),
}


def table(version: str) -> pa.Table:
    data = arrays.leaves_table(1500, 0.2)
    blob = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    data = data.append_column(blob, pa.array([b"b"] * 1500, pa.large_binary()))
    if version != "2.0":
        nested = arrays.nested_table(1500, 0.2)
        for name in nested.column_names:
            if version == "2.2" or not any(pa.types.is_map(kind) for kind in [nested[name].type]):
                data = data.append_column(name, nested[name])
    return data


def encodings(content: bytes) -> Iterator[tuple[any_pb2.Any, bool]]:
    """(encoding, it is a page's) of everything in a file."""
    (offsets, count) = struct.unpack_from("<8xQ8x4xI", content, len(content) - 40)
    for number in range(count):
        start, size = struct.unpack_from("<QQ", content, offsets + 16 * number)
        column = file2_pb2.ColumnMetadata.FromString(content[start : start + size])
        assert list(unknown_members(column)) == []
        yield any_pb2.Any.FromString(column.encoding.direct.encoding), False
        for page in column.pages:
            yield any_pb2.Any.FromString(page.encoding.direct.encoding), True


@pytest.mark.parametrize("version", sorted(PAGES))
def test_data_files(tmp_path: Path, version: str) -> None:
    lance.write_dataset(table(version), str(tmp_path / "t"), data_storage_version=version)
    content = next((tmp_path / "t" / "data").glob("*.lance")).read_bytes()
    (buffers,) = struct.unpack_from("<16xQ", content, len(content) - 40)
    start, size = struct.unpack_from("<QQ", content, buffers)
    descriptor = file_pb2.FileDescriptor.FromString(content[start : start + size])
    assert descriptor.length == 1500
    assert list(unknown_members(descriptor)) == []
    url, page_message = PAGES[version]
    for encoding, is_page in encodings(content):
        assert encoding.type_url == (url if is_page else "/lance.encodings.ColumnEncoding")
        message = page_message() if is_page else encodings_v2_0_pb2.ColumnEncoding()
        message.ParseFromString(encoding.value)
        assert list(unknown_members(message)) == []


def test_legacy_files(tmp_path: Path) -> None:
    data = pa.table({"a": range(100), "s": ["x"] * 100})
    lance.write_dataset(data, str(tmp_path / "t"), data_storage_version="legacy")
    content = next((tmp_path / "t" / "data").glob("*.lance")).read_bytes()
    (start,) = struct.unpack_from("<Q", content, len(content) - 16)
    (size,) = struct.unpack_from("<I", content, start)
    metadata = file_pb2.Metadata.FromString(content[start + 4 : start + 4 + size])
    assert list(metadata.batch_offsets) == [0, 100]
    assert list(unknown_members(metadata)) == []


def test_row_ids_and_index_details(tmp_path: Path) -> None:
    data = pa.table({"a": range(1000), "s": [f"w{i % 9}" for i in range(1000)], "l": [[i] for i in range(1000)]})
    dataset = lance.write_dataset(data, str(tmp_path / "t"), enable_stable_row_ids=True)
    indices = [("a", "ZONEMAP"), ("s", "BLOOMFILTER"), ("s", "BITMAP"), ("l", "LABEL_LIST"), ("s", "INVERTED")]
    for column, kind in indices:
        dataset.create_scalar_index(column, kind, name=kind)
    dataset.delete("a % 7 = 3")
    dataset.update({"s": "'x'"}, where="a % 5 = 2")
    dataset.optimize.compact_files()
    content = sorted((tmp_path / "t" / "_versions").glob("*.manifest"))[0].read_bytes()
    (position,) = struct.unpack("<Q", content[-16:-8])
    manifest = table_pb2.Manifest.FromString(content[position + 4 : -16])
    for fragment in manifest.fragments:
        for message in (
            rowids_pb2.RowIdSequence.FromString(fragment.inline_row_ids),
            rowids_pb2.RowDatasetVersionSequence.FromString(fragment.inline_created_at_versions),
            rowids_pb2.RowDatasetVersionSequence.FromString(fragment.inline_last_updated_at_versions),
        ):
            assert list(unknown_members(message)) == []
    (size,) = struct.unpack_from("<I", content, manifest.index_section)
    start = manifest.index_section + 4
    section = table_pb2.IndexSection.FromString(content[start : start + size])
    known = {
        "/lance.table.ZoneMapIndexDetails": index_pb2.ZoneMapIndexDetails(),
        "/lance.table.BitmapIndexDetails": index_pb2.BitmapIndexDetails(),
        "/lance.table.LabelListIndexDetails": index_pb2.LabelListIndexDetails(),
        "/lance.table.InvertedIndexDetails": index_pb2.InvertedIndexDetails(),
        "/lance.index.pb.BloomFilterIndexDetails": index_details_pb2.BloomFilterIndexDetails(),
    }
    assert {index.index_details.type_url for index in section.indices} == set(known)
    for index in section.indices:
        details = known[index.index_details.type_url]
        details.ParseFromString(index.index_details.value)
        assert list(unknown_members(details)) == []


def test_key_positions(tmp_path: Path) -> None:
    key = {"lance-schema:unenforced-primary-key:position": "2"}
    order = {"lance-schema:unenforced-clustering-key:position": "1"}
    fields = [pa.field("k", pa.int64(), False, key), pa.field("c", pa.int64(), True, order)]
    lance.write_dataset(pa.table([[1], [1]], schema=pa.schema(fields)), str(tmp_path / "t"))
    content = next((tmp_path / "t" / "_versions").glob("*.manifest")).read_bytes()
    (position,) = struct.unpack("<Q", content[-16:-8])
    manifest = table_pb2.Manifest.FromString(content[position + 4 : -16])
    assert list(unknown_members(manifest)) == []
    assert [field.unenforced_primary_key for field in manifest.fields] == [True, False]
    assert [field.unenforced_primary_key_position for field in manifest.fields] == [2, 0]
    assert [field.unenforced_clustering_key_position for field in manifest.fields] == [0, 1]
