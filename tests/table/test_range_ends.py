"""Numbers at the end of their range and text that is no UTF-8: each an error of this package, and nothing changed."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark._proto import table_pb2
from lance_spark.errors import CorruptFileError, InvalidInputError, LanceError, NotFoundError, UnsupportedFeatureError
from lance_spark.expr.literals import literal
from lance_spark.expr.nodes import Column, Like, StringMatch, StringMatchOp
from lance_spark.expr.sql.parse import parse
from lance_spark.storage.cache import shared
from lance_spark.table.rows.row_ids import RowIdSequence
from tests.support.manifest_surgery import edit_manifest

HALF = "\ud800"
ROWS = pa.table({"a": range(20), "s": [str(i) for i in range(20)]})
MORE = pa.table({"a": [1, 100], "s": ["x", "y"]})
Verb = Callable[[lance_spark.Dataset], Any]
VERBS: dict[str, Verb] = {
    "append": lambda table: lance_spark.write(MORE, table.uri, mode="append"),
    "overwrite": lambda table: lance_spark.write(MORE, table.uri, mode="overwrite"),
    "merge": lambda table: table.merge(MORE, on="a"),
    "evolving append": lambda table: lance_spark.write(
        MORE.append_column("q", pa.array([1, 2])), table.uri, mode="append", merge_schema=True
    ),
    "add": lambda table: table.add_columns({"n": "a + 1"}),
    "add two": lambda table: table.add_columns({"n": "a + 1", "m": "a + 2"}),
    "alter": lambda table: table.alter_column("a", data_type=pa.int32()),
}


def opened(tmp_path: Path, edit: Callable[[table_pb2.Manifest], None] | None = None) -> lance_spark.Dataset:
    path = tmp_path / "t"
    lance.write_dataset(ROWS, str(path), enable_stable_row_ids=True)
    if edit is not None:
        edit_manifest(path, edit)
    shared.clear()
    return lance_spark.open(str(path))


def _fields_up(by: int) -> Callable[[table_pb2.Manifest], None]:
    def edit(manifest: table_pb2.Manifest) -> None:
        for field in manifest.fields:
            field.id += by
        for file in manifest.fragments[0].files:
            moved = [number + by for number in file.fields]
            del file.fields[:]
            file.fields.extend(moved)

    return edit


def unchanged(table: lance_spark.Dataset, verb: Verb, match: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=match):
        verb(table)
    again = lance_spark.open(table.uri)
    assert again.version == table.version
    assert again.to_table() == ROWS


@pytest.mark.parametrize("verb", ["append", "overwrite", "merge", "evolving append"])
def test_no_row_ids_left(verb: str, tmp_path: Path) -> None:
    table = opened(tmp_path, lambda manifest: setattr(manifest, "next_row_id", 2**64 - 1))
    if verb == "merge":
        with pytest.raises(UnsupportedFeatureError, match="row ids left"):
            table.merge(pa.table({"a": [100], "s": ["y"]}), on="a")
        return
    unchanged(table, VERBS[verb], "row ids left")


def test_last_row_ids_are_given(tmp_path: Path) -> None:
    table = opened(tmp_path, lambda manifest: setattr(manifest, "next_row_id", 2**64 - 3))
    made = lance_spark.write(MORE, table.uri, mode="append")
    ids = made.to_table(with_row_id=True)["_rowid"].to_pylist()[-2:]
    assert ids == [2**64 - 3, 2**64 - 2]
    with pytest.raises(UnsupportedFeatureError, match="row ids left"):
        lance_spark.write(MORE, table.uri, mode="append")


@pytest.mark.parametrize("verb", ["add", "add two", "alter", "evolving append"])
def test_no_field_ids_left(verb: str, tmp_path: Path) -> None:
    unchanged(opened(tmp_path, _fields_up(2**31 - 2)), VERBS[verb], "field ids left")


def test_second_new_column_beyond_the_last_field_id(tmp_path: Path) -> None:
    table = opened(tmp_path, _fields_up(2**31 - 3))
    with pytest.raises(InvalidInputError, match="column 'm' cannot be written"):
        VERBS["add two"](table)
    assert lance_spark.open(table.uri).to_table() == ROWS
    assert VERBS["add"](table).lance_schema.max_field_id == 2**31 - 1


def test_largest_row_id_without_listing_ids() -> None:
    assert RowIdSequence.of_range(5, 2**63).largest == 2**63 + 4
    assert RowIdSequence.of_ids(pa.array([7, 3, 9, 1], pa.uint64()).to_numpy()).largest == 9
    assert RowIdSequence(()).largest == -1


@pytest.mark.parametrize("number", [
    "1e999999", "-1e999999", "1e99999", "1e999999999999999999999", "1e-999999", "NaN", "sNaN", "Infinity",
    "9" * 100_000,
])  # fmt: skip
@pytest.mark.parametrize("unit", ["SECOND", "DAY"])
def test_intervals_beyond_64_bits_are_refused(number: str, unit: str) -> None:
    with pytest.raises(InvalidInputError, match="INTERVAL takes a number"):
        parse(f"INTERVAL '{number}' {unit} > INTERVAL '1' SECOND")


def test_interval_of_nothing_with_huge_exponent() -> None:
    assert parse("INTERVAL '0e99999' SECOND = INTERVAL '0' SECOND") is not None


FILTERS = [
    "s = '{}'", "`{}` = 1", "{} = 1", "s LIKE '{}%'", "s IN ('{}')", "startswith(s, '{}')", "concat(s, '{}') = 'a'",
    "DATE '{}' = DATE '2020-01-01'", "X'{}' = X'00'", "CAST('{}' AS INT) = 1", "lower('{}') = 'a'", "a = 1 -- {}",
]  # fmt: skip


@pytest.mark.parametrize("text", FILTERS)
def test_filters_with_half_a_surrogate_pair_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="half of a surrogate pair"):
        parse(text.format(HALF))


@pytest.mark.parametrize(
    "make",
    [
        lambda: literal(HALF),
        lambda: Column((HALF,)),
        lambda: Like(Column(("s",)), HALF),
        lambda: StringMatch(StringMatchOp.CONTAINS, Column(("s",)), HALF),
    ],
    ids=["literal", "column", "like", "contains"],
)
def test_filter_trees_with_half_a_surrogate_pair_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidInputError, match="half of a surrogate pair"):
        make()


TEXTS: dict[str, Verb] = {
    "columns": lambda table: table.to_table(columns=[HALF]),
    "path": lambda table: lance_spark.open(table.uri + HALF),
    "new path": lambda table: lance_spark.write(MORE, table.uri + HALF),
    "tag": lambda table: table.create_tag(HALF),
    "open tag": lambda table: lance_spark.open(table.uri, version=HALF),
    "branch": lambda table: table.create_branch(HALF),
    "config key": lambda table: table.update_config({HALF: "v"}),
    "config value": lambda table: table.update_config({"k": HALF}),
    "metadata": lambda table: table.update_metadata({"k": HALF}),
    "schema metadata": lambda table: table.update_schema_metadata({"k": HALF}),
    "schema metadata key": lambda table: table.update_schema_metadata({HALF: "v"}),
    "field metadata": lambda table: table.update_field_metadata({"a": {"k": HALF}}),
    "field metadata key": lambda table: table.update_field_metadata({"a": {HALF: "v"}}),
    "update": lambda table: table.update({"s": f"'{HALF}'"}),
    "update column": lambda table: table.update({HALF: "1"}),
    "new column": lambda table: table.add_columns({HALF: "a + 1"}),
    "new values": lambda table: table.add_columns({"n": f"'{HALF}'"}),
    "rename": lambda table: table.alter_column("a", name=HALF),
    "comment": lambda table: table.alter_column("a", comment=HALF),
    "merge key": lambda table: table.merge(MORE, on=HALF),
    "message": lambda table: lance_spark.write(MORE, table.uri, mode="append", commit_message=HALF),
    "properties": lambda table: lance_spark.write(MORE, table.uri, mode="append", transaction_properties={HALF: HALF}),
    "clone": lambda table: table.shallow_clone(table.uri + HALF),
    "base": lambda table: table.add_bases([lance_spark.BasePath(1, HALF, True)]),
}


@pytest.mark.parametrize("name", TEXTS)
def test_half_a_surrogate_pair_is_refused(name: str, tmp_path: Path) -> None:
    table = opened(tmp_path)
    with pytest.raises(LanceError) as caught:
        TEXTS[name](table)
    str(caught.value).encode()
    again = lance_spark.open(table.uri)
    assert (again.version, again.to_table()) == (table.version, ROWS)


def test_messages_can_be_written_as_utf8() -> None:
    for error in (NotFoundError(f"no table {HALF}"), CorruptFileError("damaged", path=f"data/{HALF}.lance")):
        assert "\\ud800" in str(error)
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
        str(error).encode()
