"""Field lists that contradict themselves are corrupt."""

from __future__ import annotations

import pytest

from lance_spark._proto import file_pb2
from lance_spark.errors import CorruptFileError
from lance_spark.schema.wire import fields_from_proto


def field(number: int, parent: int, **more: object) -> file_pb2.Field:
    return file_pb2.Field(name=f"f{number}", id=number, parent_id=parent, logical_type="struct", **more)


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
