"""One column of every kind, described by the reference library and by us."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.arrow import BFloat16Type
from lance.blob import blob_field

from lance_spark._proto import file_pb2, table_pb2
from lance_spark.errors import InvalidInputError
from lance_spark.file_version import FileVersion
from lance_spark.schema import columns, wire
from lance_spark.schema.arrow import from_arrow_schema, to_arrow_schema
from lance_spark.schema.field import LanceSchema

PAIR = pa.struct([("a", pa.int8()), ("b", pa.int16())])
INT8, TEXT = pa.int8(), pa.string()


class Celsius(pa.ExtensionType):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(pa.int32(), "test.celsius")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"scale=2"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Celsius:
        return cls()


def key(text: str, value: str) -> pa.Field:
    return pa.field("c", pa.int32(), False, {f"lance-schema:unenforced-{text}": value})


PLAIN = {
    "key_true": key("primary-key", "TRUE"),
    "key_yes": key("primary-key", "y"),
    "key_no": key("primary-key", "t"),
    "key_position": key("primary-key:position", "2"),
    "key_position_0": key("primary-key:position", "0"),
    "key_position_plus": key("primary-key:position", "+03"),
    "key_position_text": key("primary-key:position", "first"),
    "key_position_negative": key("primary-key:position", "-1"),
    "key_position_too_large": key("primary-key:position", "4294967296"),
    "clustering_position": key("clustering-key:position", "1"),
    "nested_dot": pa.field("c", pa.struct([("x.y", INT8)])),
    "backtick": pa.field("a`b", INT8),
    "dictionary_of_int": pa.field("c", pa.dictionary(INT8, pa.int64())),
    "dictionary_of_large": pa.field("c", pa.dictionary(pa.uint16(), pa.large_string())),
    "dictionary_in_list": pa.field("c", pa.list_(pa.dictionary(pa.int32(), TEXT))),
    "map_of_required": pa.field("c", pa.map_(TEXT, pa.field("value", INT8, False))),
    "map_metadata": pa.field("c", pa.map_(pa.field("key", TEXT, False, {"a": "b"}), pa.field("value", INT8))),
    "map_of_structs": pa.field("c", pa.map_(TEXT, PAIR)),
    "list_of_maps": pa.field("c", pa.list_(pa.map_(INT8, INT8))),
    "item_name": pa.field("c", pa.list_(pa.field("element", INT8, False))),
    "item_metadata": pa.field("c", pa.list_(pa.field("item", INT8, True, {"x": "y"}))),
    "fsl_of_bool": pa.field("c", pa.list_(pa.bool_(), 3)),
    "fsl_of_decimal": pa.field("c", pa.list_(pa.decimal128(5, 2), 3)),
    "fsl_of_zoned": pa.field("c", pa.list_(pa.timestamp("us", "+05:30"), 3)),
    "fsl_of_binary": pa.field("c", pa.list_(pa.binary(4), 3)),
    "fsl_of_structs": pa.field("c", pa.list_(PAIR, 3)),
    "list_of_null": pa.field("c", pa.list_(pa.null())),
    "list_of_fsl": pa.field("c", pa.list_(pa.list_(INT8, 2))),
    "list_of_lists_of_structs": pa.field("c", pa.list_(pa.list_(PAIR))),
    "negative_scale": pa.field("c", pa.decimal128(5, -2)),
    "width_0": pa.field("c", pa.binary(0)),
    "offset_zone": pa.field("c", pa.timestamp("ns", "+05:30")),
    "packed": pa.field("c", PAIR, True, {"packed": "true"}),
    "packed_1": pa.field("c", PAIR, True, {"lance-encoding:packed": "1"}),
    "packed_on": pa.field("c", PAIR, True, {"lance-encoding:packed": "ON"}),
    "packed_not": pa.field("c", PAIR, True, {"lance-encoding:packed": "enabled"}),
    "packed_text": pa.field("c", pa.struct([("a", INT8), ("t", TEXT)]), True, {"packed": "yes"}),
}
EXTENSIONS = {
    "unknown": pa.field("c", pa.binary(16), True, {"ARROW:extension:name": "made.up"}),
    "uuid": pa.field("c", pa.uuid()),
    "uuid_list": pa.field("c", pa.list_(pa.uuid())),
    "bool8": pa.field("c", pa.bool8()),
    "opaque": pa.field("c", pa.opaque(pa.int32(), "a", "b")),
    "tensor": pa.field("c", pa.fixed_shape_tensor(pa.float32(), (2, 2))),
    "bfloat16": pa.field("c", BFloat16Type()),
    "bfloat16_fsl": pa.field("c", pa.list_(BFloat16Type(), 4)),
    "python": pa.field("c", Celsius()),
    "blob_v2": blob_field("c"),
    "binary_view": pa.field("c", pa.binary_view()),
    "map_names": pa.field("c", pa.map_(pa.field("k", TEXT, False), pa.field("v", INT8))),
}


def described(tmp_path: Path, field: pa.Field, version: str) -> tuple[list[file_pb2.Field], list[int], pa.Schema]:
    """(fields of the manifest, fields of the data file, schema) of a table with this column between two others."""
    values = pa.nulls(3, field.type) if field.nullable else pa.array([1, 2, 3], field.type)
    schema = pa.schema([pa.field("first", pa.int32()), field, pa.field("last", pa.int64())])
    data = pa.Table.from_arrays([pa.array([1, 2, 3], pa.int32()), values, pa.array([1, 2, 3])], schema=schema)
    dataset = lance.write_dataset(data, str(tmp_path / "t"), data_storage_version=version)
    content = next((tmp_path / "t" / "_versions").glob("*.manifest")).read_bytes()
    (position,) = struct.unpack("<Q", content[-16:-8])
    manifest = table_pb2.Manifest.FromString(content[position + 4 : -16])
    return list(manifest.fields), list(manifest.fragments[0].files[0].fields), dataset.schema


@pytest.mark.parametrize("name", [*PLAIN, *EXTENSIONS])
def test_a_column_is_described_as_by_pylance(tmp_path: Path, name: str) -> None:
    field = PLAIN.get(name) or EXTENSIONS[name]
    theirs, owned, arrow_schema = described(tmp_path, field, "2.2")
    ours = from_arrow_schema(pa.schema([pa.field("first", pa.int32()), field, pa.field("last", pa.int64())]))
    assert wire.fields_to_proto(ours.fields) == theirs
    read = wire.fields_from_proto(theirs)
    assert wire.fields_to_proto(read) == theirs
    assert [node.id for node in columns.column_fields(read, FileVersion.V2_2)] == owned
    if name in PLAIN:
        assert to_arrow_schema(LanceSchema(read)).equals(arrow_schema, check_metadata=True)


@pytest.mark.parametrize("key", ["packed", "lance-encoding:packed"])
@pytest.mark.parametrize("value", ["true", "0", ""])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_which_structs_are_packed(tmp_path: Path, key: str, value: str, version: str) -> None:
    field = pa.field("p", PAIR, False, {key: value})
    data = pa.Table.from_arrays([pa.array([{"a": 1, "b": 2}], PAIR)], schema=pa.schema([field]))
    dataset = lance.write_dataset(data, str(tmp_path / "t"), data_storage_version=version)
    owned = dataset.get_fragments()[0].metadata.files[0].fields
    ours = columns.column_fields(from_arrow_schema(data.schema).fields, FileVersion(version))
    assert [node.id for node in ours] == list(owned)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_the_key_alone_makes_a_blob(tmp_path: Path, version: str) -> None:
    field = pa.field("c", pa.large_binary(), True, {"lance-encoding:blob": "false"})
    theirs, owned, _ = described(tmp_path, field, version)
    read = wire.fields_from_proto(theirs)
    assert [columns.is_blob(node) for node in read] == [False, True, False]
    assert [node.id for node in columns.column_fields(read, FileVersion(version))] == owned
    assert wire.fields_to_proto(read) == theirs


@pytest.mark.parametrize(
    "dtype",
    [
        pa.decimal32(5, 2),
        pa.list_(pa.dictionary(INT8, TEXT), 2),
        pa.list_(INT8, 0),
        pa.list_(pa.list_(PAIR, 2), 3),
        pa.dictionary(INT8, pa.timestamp("us", "UTC")),
        pa.timestamp("us", "-"),
    ],
    ids=str,
)
def test_what_pylance_refuses_is_refused(tmp_path: Path, dtype: pa.DataType) -> None:
    with pytest.raises(OSError, match=r"Schema|Not supported|does not match"):
        lance.write_dataset(pa.table({"c": pa.nulls(2, dtype)}), str(tmp_path / "t"))
    with pytest.raises(InvalidInputError, match="c "):
        from_arrow_schema(pa.schema([("c", dtype)]))


def test_top_level_names_without_dots(tmp_path: Path) -> None:
    data = pa.table({"a.b": [1]})
    with pytest.raises(OSError, match="cannot contain"):
        lance.write_dataset(data, str(tmp_path / "t"))
    with pytest.raises(InvalidInputError, match="rename"):
        from_arrow_schema(data.schema)


def test_json_text_is_a_json_column(tmp_path: Path) -> None:
    for field in (pa.field("j", pa.json_()), pa.field("j", TEXT, True, {"ARROW:extension:name": "arrow.json"})):
        (made,) = from_arrow_schema(pa.schema([field])).fields
        theirs, _, _ = described(tmp_path / str(len(str(field.type))), field, "2.2")
        _, expected, _ = LanceSchema(wire.fields_from_proto(theirs)).fields
        # The reference leaves the empty entry out of the second one, and then refuses appends of its first form.
        assert (made.logical_type, made.metadata) == ("json", expected.metadata | {"ARROW:extension:metadata": b""})


def test_json_is_read_as_its_bytes(tmp_path: Path) -> None:
    theirs, owned, _ = described(tmp_path, pa.field("c", pa.json_()), "2.2")
    field = to_arrow_schema(LanceSchema(wire.fields_from_proto(theirs))).field("c")
    assert field.type == pa.large_binary()
    assert field.metadata[b"ARROW:extension:name"] == b"lance.json"
    assert owned == [0, 1, 2]


@pytest.mark.parametrize(
    ("shape", "names", "order"), [((2, 3), None, None), ((2, 3), ("h", "w"), None), ((2, 3), ("h", "w"), (1, 0))]
)
def test_tensors_come_back(
    shape: tuple[int, ...], names: tuple[str, ...] | None, order: tuple[int, ...] | None
) -> None:
    dtype = pa.fixed_shape_tensor(pa.float32(), shape, dim_names=names, permutation=order)
    [field] = to_arrow_schema(from_arrow_schema(pa.schema([("c", dtype)])))
    assert field.type == pa.list_(pa.float32(), 6)
    # Arrow's own reader builds the type again from the metadata.
    assert pa.ipc.read_schema(pa.schema([field]).serialize()).field("c").type == dtype
    assert json.loads(field.metadata[b"ARROW:extension:metadata"])["shape"] == [2, 3]
