"""The map between Lance and Arrow types says what the reference library says."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lance_spark._proto import table_pb2
from lance_spark.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_spark.file_version import FileVersion
from lance_spark.schema import arrow, columns, wire
from lance_spark.schema.field import Field, FieldId
from tests.support import arrays

NOT_IN = {
    "2.2": set(),
    "2.1": {"map", "list_of_size_of_structs"},
    "2.0": {
        "map",
        "list_of_size_of_structs",
        "struct",
        "struct_struct",
        "list_struct",
        "struct_list",
        "deep",
        "empty_struct",
    },
}


def everything(version: str) -> pa.Table:
    table = arrays.leaves_table(50, 0.2)
    nested = arrays.nested_table(50, 0.2)
    for name in nested.column_names:
        table = table.append_column(name, nested[name])
    pair = pa.struct([("a", pa.int8())])
    table = table.append_column(pa.field("with_metadata", pa.int32(), metadata={"a": "b"}), pa.nulls(50, pa.int32()))
    table = table.append_column("empty_struct", pa.array([{}] * 50, pa.struct([])))
    table = table.append_column("large_list", pa.array([[1]] * 50, pa.large_list(pa.int8())))
    table = table.append_column("large_list_of_structs", pa.array([[{"a": 1}]] * 50, pa.large_list(pair)))
    table = table.append_column("list_of_size_of_structs", pa.array([[{"a": 1}]] * 50, pa.list_(pair, 1)))
    table = table.append_column("matrix", pa.array([[[1.0, 2.0]]] * 50, pa.list_(pa.list_(pa.float32(), 2), 1)))
    table = table.append_column(pa.field("not_null", pa.int32(), nullable=False), pa.array(range(50), pa.int32()))
    return table.drop_columns([name for name in table.column_names if name in NOT_IN[version]])


@pytest.mark.parametrize("version", sorted(NOT_IN))
def test_fields_ids_types_and_columns_are_those_of_pylance(tmp_path: Path, version: str) -> None:
    table = everything(version)
    uri = str(tmp_path / "t")
    lance.write_dataset(table, uri, data_storage_version=version)
    content = next((tmp_path / "t" / "_versions").glob("*.manifest")).read_bytes()
    (position,) = struct.unpack("<Q", content[-16:-8])
    manifest = table_pb2.Manifest.FromString(content[position + 4 : -16])
    theirs = wire.fields_from_proto(manifest.fields)
    ours = arrow.from_arrow_schema(table.schema)
    assert ours.fields == theirs
    assert arrow.to_arrow_schema(ours).equals(lance.dataset(uri).schema, check_metadata=True)
    assert list(wire.fields_to_proto(theirs)) == list(manifest.fields)
    owned = [field.id for field in columns.column_fields(ours.fields, FileVersion(version))]
    assert owned == list(manifest.fragments[0].files[0].fields)


@pytest.mark.parametrize(
    "dtype",
    [
        pa.month_day_nano_interval(),
        pa.decimal32(5, 2),
        pa.decimal64(12, 2),
        pa.list_view(pa.int32()),
        pa.list_(pa.string(), 2),
        pa.sparse_union([pa.field("a", pa.int8())]),
        pa.run_end_encoded(pa.int32(), pa.int8()),
    ],
    ids=str,
)
def test_types_that_lance_has_not_are_refused(dtype: pa.DataType) -> None:
    with pytest.raises(InvalidInputError, match=r"outer\.inner"):
        arrow.from_arrow_schema(pa.schema([("outer", pa.struct([("inner", dtype)]))]))


def test_views_become_what_they_view() -> None:
    schema = arrow.from_arrow_schema(pa.schema([("s", pa.string_view()), ("b", pa.binary_view())]))
    assert [field.logical_type for field in schema.fields] == ["string", "binary"]


def test_two_fields_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="more than one field named 'a'"):
        arrow.from_arrow_schema(pa.schema([("a", pa.int8()), ("a", pa.int16())]))


def test_an_extension_type_is_its_storage_and_metadata() -> None:
    field = arrow.from_arrow_schema(pa.schema([("u", pa.uuid())])).fields[0]
    assert field.logical_type == "fixed_size_binary:16"
    assert field.metadata["ARROW:extension:name"] == b"arrow.uuid"


@pytest.mark.parametrize(
    "logical",
    [
        "decimal:128",
        "decimal:64:1:2",
        "decimal:128:x:2",
        "decimal:128:99999999999999999999:2",
        "fixed_size_list:float",
        "fixed_size_list:float:-1",
        "fixed_size_list:float:99999999999",
        "fixed_size_binary:",
        "fixed_size_binary:x",
        "dict:a",
        "dict:string:string:false",
        "timestamp:us",
        "timestamp:fortnight:-",
        "duration:",
        "fixed_size_binary:1:2",
    ],
)
def test_malformed_types_are_corrupt(logical: str) -> None:
    with pytest.raises(CorruptFileError, match="malformed"):
        arrow.to_arrow_type(Field("f", FieldId(0), logical))


@pytest.mark.parametrize("logical", ["fixed_size_list:struct:2", "dict:list:int8:false", "list", "large_list.struct"])
def test_types_without_their_children_are_corrupt(logical: str) -> None:
    with pytest.raises(CorruptFileError, match="children"):
        arrow.to_arrow_type(Field("f", FieldId(0), logical))


@pytest.mark.parametrize("number", [101, 100_000])
def test_types_that_nest_beyond_reason_are_corrupt(number: int) -> None:
    for logical in ("fixed_size_list:" * number + "float" + ":1" * number, "dict:" * number):
        with pytest.raises(CorruptFileError, match="deeper"):
            arrow.to_arrow_type(Field("f", FieldId(0), logical))


@given(st.text(alphabet="dict:fxe_szlsta0123456789-decimaltimestampusdurn", max_size=60))
@example("fixed_size_list:fixed_size_list:float:2")
def test_no_logical_type_does_harm(logical: str) -> None:
    with suppress(CorruptFileError, UnsupportedFeatureError):
        arrow.to_arrow_type(Field("f", FieldId(0), logical))


def test_schemas_that_could_not_be_read_again_are_not_made() -> None:
    dtype = pa.int8()
    for _ in range(101):
        dtype = pa.list_(dtype)
    with pytest.raises(InvalidInputError, match="deeper"):
        arrow.from_arrow_schema(pa.schema([("l", dtype)]))
    read = wire.fields_from_proto(
        wire.fields_to_proto(arrow.from_arrow_schema(pa.schema([("l", dtype.value_type)])).fields)
    )
    assert len(list(read[0].walk())) == 101


def test_metadata_has_to_be_text() -> None:
    for field in (pa.field("f", pa.int8(), True, {b"k": b"\xff"}), pa.field("f", pa.int8(), True, {b"\xff": b"v"})):
        with pytest.raises(InvalidInputError, match="UTF-8"):
            arrow.from_arrow_schema(pa.schema([field]))
    with pytest.raises(InvalidInputError, match="UTF-8"):
        arrow.from_arrow_schema(pa.schema([("f", pa.int8())], metadata={b"k": b"\xff"}))


def test_schema_metadata_and_first_ids_are_kept() -> None:
    schema = pa.schema([("s", pa.struct([("a", pa.int8())])), ("b", pa.int8())], metadata={"k": "v"})
    ours = arrow.from_arrow_schema(schema, first_id=7)
    assert [node.id for node in ours.walk()] == [7, 8, 9]
    assert ours.max_field_id == 9
    assert arrow.to_arrow_schema(ours).equals(schema, check_metadata=True)


def test_unknown_types_are_unsupported() -> None:
    with pytest.raises(UnsupportedFeatureError, match="hologram"):
        arrow.to_arrow_type(Field("f", FieldId(0), "hologram:3"))
