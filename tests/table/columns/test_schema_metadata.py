"""Metadata of the schema and of columns changes as the reference library changes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark._proto import transaction_pb2
from lance_spark.errors import IncompatibleConflictError, InvalidInputError, NotFoundError
from lance_spark.table.operations.update_config import UpdateConfig
from lance_spark.table.operations.update_map import UpdateMap
from tests.support.column_tables import checked, make, operation_of, rows

STEPS: list[tuple[dict[str, str | None], bool]] = [
    ({"k": "1"}, False),
    ({"k": "2", "j": "ä"}, False),
    ({"k": None, "none": None}, False),
    ({"new": "x"}, True),
    ({}, True),
]


@pytest.mark.parametrize(("entries", "replace"), STEPS)
def test_each_step_is_as_by_pylance(tmp_path: Path, entries: dict[str, str | None], replace: bool) -> None:
    (tmp_path / "x").mkdir()
    own, committed = make(tmp_path), make(tmp_path / "x")
    for uri in (own, committed):
        lance.dataset(uri).update_schema_metadata({"k": "0", "old": "y"})
        lance.dataset(uri).update_field_metadata({"s.x": {"k": "0", "old": "y"}})
    lance_spark.open(own).update_schema_metadata(entries, replace=replace)
    lance_spark.open(own).update_field_metadata({"s.x": entries, "a": entries}, replace=replace)
    lance.dataset(committed).update_schema_metadata(entries, replace=replace)
    lance.dataset(committed).update_field_metadata({"s.x": entries, "a": entries}, replace=replace)
    assert checked(own).lance_schema == lance_spark.open(committed).lance_schema
    assert lance.dataset(own).schema.equals(lance.dataset(committed).schema, check_metadata=True)
    assert operation_of(lance_spark.open(own)) == operation_of(lance_spark.open(committed))
    assert isinstance(operation_of(lance_spark.open(own)), UpdateConfig)


def test_invalid_arguments_are_refused(tmp_path: Path) -> None:
    uri = make(tmp_path)
    dataset = lance_spark.open(uri)
    with pytest.raises(NotFoundError):
        dataset.update_field_metadata({"nope": {"k": "v"}})
    with pytest.raises(InvalidInputError):
        dataset.update_field_metadata({"a": {"k": 1}})  # type: ignore[dict-item]
    with pytest.raises(InvalidInputError):
        dataset.update_schema_metadata({"k": b"v"})  # type: ignore[dict-item]
    assert checked(uri).version == 2


KEY: dict[str, str | None] = {"lance-schema:unenforced-primary-key": "true"}
KEYED = pa.schema(
    [
        pa.field("a", pa.int64(), nullable=False, metadata=KEY),
        pa.field("b", pa.int64(), nullable=False),
        pa.field("c", pa.int64()),
    ]
)


def keyed(path: Path, schema: pa.Schema = KEYED) -> str:
    uri = str(path / "t")
    lance.write_dataset(pa.Table.from_pylist([dict.fromkeys(schema.names, 1)], schema=schema), uri)
    return uri


def test_a_primary_key_keeps_its_other_metadata_free(tmp_path: Path) -> None:
    uri = keyed(tmp_path)
    lance_spark.open(uri).update_field_metadata({"a": {"k": "v"}})
    assert checked(uri).lance_schema.fields[0].unenforced_primary_key
    lance_spark.open(uri).rename_columns({"a": "key"}).drop_columns(["c"])
    lance_spark.open(uri).drop_columns(["key"]).update_field_metadata({"b": KEY})
    assert lance_spark.write(pa.table({"b": [2]}), uri, mode="append").count_rows() == 2
    assert lance.dataset(uri).schema.field("b").metadata == {b"lance-schema:unenforced-primary-key": b"true"}


KEY_CHANGES: dict[str, Callable[[lance.LanceDataset | lance_spark.Dataset], object]] = {
    "removed": lambda d: d.update_field_metadata({"a": dict.fromkeys(KEY)}),
    "position": lambda d: d.update_field_metadata({"a": {"lance-schema:unenforced-primary-key:position": "2"}}),
    "extended": lambda d: d.update_field_metadata({"b": KEY}),
    "extended by nulls": lambda d: d.update_field_metadata({"c": KEY}),
    "nullable": lambda d: d.alter_columns({"path": "a", "nullable": True}),
    "new column": lambda d: d.add_columns(pa.schema([pa.field("z", pa.int64(), metadata=KEY)])),
}


@pytest.mark.parametrize("change", KEY_CHANGES)
def test_a_primary_key_stays_valid_and_what_it_is(tmp_path: Path, change: str) -> None:
    uri = keyed(tmp_path)
    with pytest.raises(OSError, match="rimary key"):
        KEY_CHANGES[change](lance.dataset(uri))
    with pytest.raises(InvalidInputError, match="primary key"):
        KEY_CHANGES[change](lance_spark.open(uri))
    assert checked(uri).version == 1
    lance.write_dataset(pa.table({"a": [2], "b": [2], "c": [2]}, schema=KEYED), uri, mode="append")


def test_two_keys_at_once_are_one_too_many(tmp_path: Path) -> None:
    uri = keyed(tmp_path, pa.schema([pa.field(name, pa.int64(), nullable=False) for name in "ab"]))
    stale = lance_spark.open(uri)
    lance.dataset(uri).update_field_metadata({"a": KEY})
    with pytest.raises(InvalidInputError, match="primary key"):
        stale.update_field_metadata({"b": KEY})


@pytest.mark.parametrize(
    "field",
    [
        pa.field("a", pa.int64(), metadata=KEY),
        pa.field("a", pa.list_(pa.int64()), nullable=False, metadata=KEY),
        pa.field("a", pa.struct([pa.field("x", pa.int64(), nullable=False, metadata=KEY)])),
    ],
    ids=["nullable", "list", "below a nullable struct"],
)
def test_an_invalid_primary_key_makes_no_table(tmp_path: Path, field: pa.Field) -> None:
    empty = pa.schema([field]).empty_table()
    with pytest.raises(OSError, match="Primary key column"):
        lance.write_dataset(empty, str(tmp_path / "reference"))
    with pytest.raises(InvalidInputError, match="primary key"):
        lance_spark.write(empty, str(tmp_path / "t"))
    assert not list(tmp_path.glob("t/**/*.*"))


THEIRS: dict[str, Callable[[lance.LanceDataset], object]] = {
    "same schema key": lambda d: d.update_schema_metadata({"k": "theirs"}),
    "same field key": lambda d: d.update_field_metadata({"a": {"k": "theirs"}}),
    "other field": lambda d: d.update_field_metadata({"b": {"k": "theirs"}}),
    "config": lambda d: d.update_config({"k": "theirs"}),
    "append": lambda d: lance.write_dataset(rows(), d.uri, mode="append"),
    "delete": lambda d: d.delete("a = 0"),
    "drop of another": lambda d: d.drop_columns(["b"]),
    "drop of the field": lambda d: d.drop_columns(["a"]),
    "overwrite": lambda d: lance.write_dataset(rows(), d.uri, mode="overwrite"),
    "restore": lambda d: lance.dataset(d.uri, version=1).restore(),
    "index": lambda d: d.create_scalar_index("a", "BTREE"),
}
CHANGES: dict[str, Callable[[lance.LanceDataset | lance_spark.Dataset], object]] = {
    "schema": lambda d: d.update_schema_metadata({"k": "mine"}),
    "field": lambda d: d.update_field_metadata({"a": {"k": "mine"}}),
}


@pytest.mark.parametrize("committed", THEIRS)
@pytest.mark.parametrize("change", CHANGES)
def test_pylance_judges_the_same(tmp_path: Path, change: str, committed: str) -> None:
    results = []
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
        uri = make(tmp_path / name)
        stale = lance_spark.open(uri) if name == "ours" else lance.dataset(uri)
        THEIRS[committed](lance.dataset(uri))
        try:
            CHANGES[change](stale)
            verdict = "ok"
        except (IncompatibleConflictError, OSError):
            verdict = "X"
        newest = lance.dataset(uri)
        results.append((verdict, newest.version, newest.schema.metadata, [f.metadata for f in newest.schema]))
    assert results[0] == results[1]


def test_other_keys_of_the_schema_go_together(tmp_path: Path) -> None:
    """The reference calls these incompatible, and only those."""
    uri = make(tmp_path)
    stale = lance_spark.open(uri)
    lance.dataset(uri).update_schema_metadata({"j": "theirs"})
    stale.update_schema_metadata({"k": "mine"})
    assert checked(uri).schema.metadata == {b"j": b"theirs", b"k": b"mine"}


def test_a_merge_of_others_leaves_metadata_to_change(tmp_path: Path) -> None:
    """The reference retries here; a field that is still there has its metadata all the same."""
    uri = make(tmp_path)
    stale = lance_spark.open(uri)
    lance.dataset(uri).add_columns({"c": "a"})
    stale.update_field_metadata({"a": {"k": "v"}})
    assert checked(uri).schema.field("a").metadata == {b"k": b"v"}


def test_what_old_releases_write_is_read() -> None:
    old = transaction_pb2.Transaction.UpdateConfig(schema_metadata={"a": "1"})
    old.field_metadata[3].metadata["b"] = "2"
    operation = UpdateConfig.from_proto(old)
    assert operation.changes_schema
    assert operation.schema_metadata == UpdateMap({"a": "1"}, replace=True)
    assert dict(operation.field_metadata) == {3: UpdateMap({"b": "2"}, replace=True)}
