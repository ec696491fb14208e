"""Extension types that Arrow knows come back as what was written, as from the reference library."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.arrow import bfloat16_array

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.partitioned.dataset import create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity

UUIDS = [uuid.UUID(int=number << 100 | number) for number in range(6)]


def uuids(*values: uuid.UUID | None) -> pa.Array:
    return pa.array(values, pa.uuid())


def tensors(count: int) -> pa.Array:
    items = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(count * 6, dtype=np.float32)), 6)
    return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), [2, 3]), items)


def typed_rows() -> pa.Table:
    """Each extension type of Arrow, with nulls, and one inside of each kind of nesting."""
    keys = uuids(*UUIDS[:5], None)
    member = pa.field("u", pa.uuid())
    mask = pa.array([False, True, False, False, False, False])
    structs = pa.StructArray.from_arrays(
        [keys, pa.array(range(6))], fields=[member, pa.field("n", pa.int64())], mask=mask
    )
    offsets = pa.array([0, 2, 2, None, 3, 5, 6], pa.int32())
    maps = pa.MapArray.from_arrays(pa.array([0, 1, 2, 2, 4, 5, 6], pa.int32()), pa.array(list("abcdef")), keys)
    return pa.table(
        {
            "id": range(6),
            "u": keys,
            "b": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None, 1, 1, 0], pa.int8())),
            "t": tensors(6),
            "o": pa.ExtensionArray.from_storage(
                pa.opaque(pa.int32(), "kind", "vendor"), pa.array(range(6), pa.int32())
            ),
            "s": structs,
            "l": pa.ListArray.from_arrays(offsets, keys),
            "m": maps,
        }
    )


@pytest.fixture(params=["2.0", "2.1", "2.2", "partitioned"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    rows = typed_rows()
    if request.param == "partitioned":
        by_id = [PartitionBy("id", ("id",), Identity())]
        return create_partitioned_dataset(str(tmp_path / "t"), rows.drop_columns(["m"]).schema, by_id).append(
            rows.drop_columns(["m"])
        )
    kept = rows.drop_columns(["m", "s"]) if request.param == "2.0" else rows.drop_columns(["m"])
    kept = rows if request.param == "2.2" else kept
    lance_spark.write(kept.slice(0, 4), str(tmp_path / "t"), file_format_version=request.param)
    return lance_spark.open(str(tmp_path / "t")).append(kept.slice(4))


def test_rows_come_back_as_they_were_written(table: Any) -> None:
    rows = typed_rows().select(table.schema.names)
    assert table.schema == rows.schema
    found = table.to_table()
    assert found.schema == rows.schema
    assert found.sort_by("id").to_pylist() == rows.to_pylist()
    for batch in table.to_batches(columns=["t", "u"]):
        assert batch.schema.types == [tensors(1).type, pa.uuid()]
    assert table.take([3, 0], columns=["u"])["u"].type == pa.uuid()
    computed = table.to_table(columns={"k": "u", "double": "id * 2"}, order_by=["id"])
    assert computed["k"].to_pylist() == rows["u"].to_pylist()


def test_both_libraries_give_the_same_types(tmp_path: Path) -> None:
    rows = typed_rows()
    theirs = lance.write_dataset(rows, str(tmp_path / "theirs"), data_storage_version="2.2")
    ours = lance_spark.write(rows, str(tmp_path / "ours"), file_format_version="2.2")
    expected = theirs.to_table()
    assert lance_spark.open(str(tmp_path / "theirs")).to_table() == expected
    assert lance.dataset(str(tmp_path / "ours")).to_table() == ours.to_table() == expected


def test_values_are_searched_and_changed_by_python_values(table: Any) -> None:
    from pyarrow import compute as pc

    number = UUIDS[2]
    for condition in (pc.field("u") == number, f"u = X'{number.hex}'", pc.field("u").isin([number.bytes])):
        assert table.to_table(filter=condition)["id"].to_pylist() == [2]
    changed = table.update({"u": UUIDS[5]}, "id = 2")
    assert changed.to_table(filter="id = 2")["u"].to_pylist() == [UUIDS[5]]
    merged = changed.merge_insert("u").when_matched_update_all().execute(changed.to_table(filter="id = 1"))
    assert merged.count_rows() == 6


def test_copies_of_columns_keep_their_type(tmp_path: Path) -> None:
    words = pa.array(["x", "y", "x"]).dictionary_encode()
    documents = pa.array(["1", None, "[]"], pa.json_())
    inner = pa.StructArray.from_arrays([documents], fields=[pa.field("j", pa.json_())])
    bytes_of_four = pa.array([b"aaaa", None, b"bbbb"], pa.binary(4))
    columns = {"u": uuids(*UUIDS[:3]), "f": bytes_of_four, "w": words, "j": documents, "s": inner}
    table = lance_spark.write(pa.table(columns), str(tmp_path / "t"))
    found = table.add_columns({"u2": "u", "f2": "f", "w2": "w", "j2": "j", "inner": "s.j"}).to_table()
    for copy, source in {"u2": "u", "f2": "f", "w2": "w", "j2": "j", "inner": "j"}.items():
        assert found[copy].type == found[source].type
        assert found[copy].to_pylist() == found[source].to_pylist()
    assert lance.dataset(str(tmp_path / "t")).to_table() == found


def test_descriptions_of_blobs_are_not_copied(tmp_path: Path) -> None:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = lance_spark.write(
        pa.table([pa.array([b"abc"], pa.large_binary())], pa.schema([field])), str(tmp_path / "t")
    )
    with pytest.raises(InvalidInputError, match="descriptions of blobs"):
        table.add_columns({"copy": "b"})
    assert table.add_columns({"size": "b.size"}).to_table()["size"].to_pylist() == [3]


@pytest.mark.parametrize(
    ("name", "parameters", "stored"),
    [
        ("arrow.fixed_shape_tensor", '{"shape":[5,5]}', pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))),
        ("arrow.fixed_shape_tensor", "no JSON", pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))),
        ("arrow.uuid", "", pa.array([7])),
        ("unknown.type", "", pa.array([7])),
    ],
)
def test_parameters_that_arrow_refuses_leave_the_stored_type(
    tmp_path: Path, name: str, parameters: str, stored: pa.Array
) -> None:
    # The reference library cannot read the first three.
    metadata = {"ARROW:extension:name": name, "ARROW:extension:metadata": parameters}
    schema = pa.schema([pa.field("c", stored.type, metadata=metadata)])
    lance_spark.write(pa.table([stored], schema), str(tmp_path / "t"))
    found = lance_spark.open(str(tmp_path / "t")).to_table()
    assert found.schema.equals(schema, check_metadata=True)
    assert found["c"].to_pylist() == stored.to_pylist()


def test_types_that_the_user_registers_are_given(tmp_path: Path) -> None:
    class Degrees(pa.ExtensionType):
        def __init__(self) -> None:
            super().__init__(pa.float64(), "test.degrees")

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Degrees:
            return cls()

    lance_spark.write(pa.table({"d": pa.ExtensionArray.from_storage(Degrees(), pa.array([1.5]))}), str(tmp_path / "t"))
    assert lance_spark.open(str(tmp_path / "t")).schema.field("d").type == pa.float64()
    pa.register_extension_type(Degrees())
    try:
        assert lance_spark.open(str(tmp_path / "t")).to_table()["d"].type == Degrees()
    finally:
        pa.unregister_extension_type("test.degrees")


def bfloat16_lists(count: int) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(bfloat16_array([float(number) for number in range(count * 2)]), 2)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_lists_and_tensors_of_bfloat16_keep_their_type(tmp_path: Path, version: str) -> None:
    lists = bfloat16_lists(4)
    dtype = pa.fixed_shape_tensor(lists.type.value_type, [2])
    columns = {
        "id": range(4),
        "x": lists,
        "s": pa.StructArray.from_arrays([lists], ["f"]),
        "t": pa.ExtensionArray.from_storage(dtype, lists),
    }
    rows, ours, theirs = pa.table(columns), str(tmp_path / "ours"), str(tmp_path / "theirs")
    lance.write_dataset(rows, theirs, data_storage_version=version)
    lance_spark.write(rows, ours, file_format_version=version)
    assert lance_spark.open(theirs).to_table() == rows
    assert lance.dataset(ours).to_table() == lance_spark.open(ours).to_table() == rows
    assert lance_spark.open(ours).schema == lance.dataset(ours).schema
    made = lance_spark.open(ours).append(lance_spark.open(ours).to_table()).delete("id = 2").compact()
    assert made.take([0, 5]) == rows.take([0, 3])
    assert lance.dataset(ours).to_table() == made.to_table()
