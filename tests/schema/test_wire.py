"""Field lists that contradict themselves are corrupt."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark._proto import file_pb2
from lance_spark.errors import CorruptFileError
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.wire import fields_from_proto, fields_to_proto, schema_from_proto, schema_to_proto


def field(number: int, parent: int, **more: object) -> file_pb2.Field:
    return file_pb2.Field(name=f"f{number}", id=number, parent_id=parent, logical_type="struct", **more)


def test_equal_messages_are_one_schema() -> None:
    named = file_pb2.Field(name="a", id=0, parent_id=-1, logical_type="int64")
    message = file_pb2.Schema(fields=[named], metadata={"b": b"1", "a": b"2"})
    schema = schema_from_proto(message)
    assert schema_from_proto(file_pb2.Schema.FromString(message.SerializeToString())) is schema
    assert to_arrow_schema(schema).equals(
        pa.schema([pa.field("a", pa.int64(), False)], {"a": "2", "b": "1"}), check_metadata=True
    )
    assert to_arrow_schema(schema) is to_arrow_schema(schema)
    message.metadata["a"] = b"3"
    assert schema_from_proto(message) == LanceSchema(schema.fields, {"a": b"3", "b": b"1"})


def test_an_id_twice() -> None:
    with pytest.raises(CorruptFileError, match="id 1"):
        fields_from_proto([field(1, -1), field(1, -1)])


def test_a_parent_that_is_not_there() -> None:
    with pytest.raises(CorruptFileError, match="parent 7"):
        fields_from_proto([field(0, -1), field(1, 7)])


def test_a_parent_after_its_child() -> None:
    with pytest.raises(CorruptFileError, match="parent 1"):
        fields_from_proto([field(0, 1), field(1, -1)])


def test_nesting_beyond_reason() -> None:
    with pytest.raises(CorruptFileError, match="deeper"):
        fields_from_proto([field(number, number - 1) for number in range(2000)])


def test_children_of_a_blob_column_have_no_ids() -> None:
    blob = field(0, -1, metadata={"lance-encoding:blob": b"true"})
    trees = fields_from_proto([blob, field(-1, -1), field(-1, -1), field(1, -1)])
    assert [len(tree.children) for tree in trees] == [2, 0]


def test_a_negative_id() -> None:
    for number in (-1, -2):
        with pytest.raises(CorruptFileError, match=str(number)):
            fields_from_proto([field(0, -1), field(number, -1)])


def test_nulls_may_be_null_whatever_a_file_says() -> None:
    fields = fields_from_proto([file_pb2.Field(name="n", id=0, parent_id=-1, logical_type="null", nullable=False)])
    assert to_arrow_schema(LanceSchema(fields)) == pa.schema([("n", pa.null())])


def test_what_is_read_is_written_again() -> None:
    blob = field(0, -1, metadata={"lance-encoding:blob": b"true"}, extension_name="lance.blob.v2", encoding=2)
    key = field(4, 3, unenforced_primary_key=True, unenforced_primary_key_position=2, nullable=True)
    order = field(5, 3, unenforced_clustering_key_position=1, dictionary=file_pb2.Dictionary(offset=7, length=9))
    messages = [blob, field(-1, -1), field(-1, -1), field(3, -1), key, order, field(2, -1)]
    assert fields_to_proto(fields_from_proto(messages)) == messages


def test_schemas() -> None:
    message = file_pb2.Schema(fields=[field(0, -1)], metadata={"k": b"\x00\xff"})
    assert schema_to_proto(schema_from_proto(message)) == message


numbers = st.integers(-3, 6)


@given(st.lists(st.tuples(numbers, numbers, st.booleans()), max_size=8))
def test_no_list_of_fields_does_harm(rows: list[tuple[int, int, bool]]) -> None:
    metadata = {"lance-encoding:blob": b"true"}
    messages = [field(number, parent, metadata=metadata if blob else {}) for number, parent, blob in rows]
    with suppress(CorruptFileError):
        trees = fields_from_proto(messages)
        # Nothing is lost.
        assert sum(1 for tree in trees for _ in tree.walk()) == len(messages)
