"""Files that take the place of others, as the reference library puts them there."""

from __future__ import annotations

from pathlib import Path

import lance
import lance.file
import pyarrow as pa
import pytest
from lance.fragment import DataFile as ReferenceFile

import lance_spark
from lance_spark.errors import IncompatibleConflictError, InvalidInputError, LanceError, RetryableConflictError
from lance_spark.file_version import FileVersion
from lance_spark.schema.field import FieldId
from lance_spark.table.commits.commit import Commit, NewTable
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.operations.data_replacement import DataReplacement
from lance_spark.table.rows.fragment import DataFile, FragmentId
from tests.support.column_tables import checked, make, operation_of, rows


def new_file(uri: str, name: str, column: str, values: list[int]) -> Path:
    """A data file that the reference writes, of one column."""
    path = Path(uri) / "data" / f"{name}.lance"
    schema = pa.schema([pa.field(column, pa.int64())])
    writer = lance.file.LanceFileWriter(str(path), schema, version="2.2")
    writer.write_batch(pa.record_batch([pa.array(values, pa.int64())], schema=schema))
    writer.close()
    return path


def replace(uri: str, fragment: int, field: int, path: Path, read_version: int | None = None) -> None:
    file = DataFile(path.name, (FieldId(field),), (0,), FileVersion.V2_2, path.stat().st_size)
    dataset = lance_spark.open(uri, version=read_version)
    transaction = Transaction.new(dataset.version, DataReplacement(((FragmentId(fragment), file),)))
    Commit(dataset.location.history, dataset.manifest, transaction, NewTable(FileVersion.V2_2)).run()


def reference_replace(uri: str, fragment: int, field: int, path: Path, read_version: int | None = None) -> None:
    file = ReferenceFile(path.name, [field], [0], 2, 2, path.stat().st_size)
    group = lance.LanceOperation.DataReplacementGroup(fragment, file)
    operation = lance.LanceOperation.DataReplacement([group])
    lance.LanceDataset.commit(uri, operation, read_version=read_version or lance.dataset(uri).version)


def test_each_step_is_as_by_pylance(tmp_path: Path) -> None:
    uris = {}
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
        uris[name] = uri = make(tmp_path / name)
        lance.dataset(uri).add_columns({"c": "a * 2"})
        lance.dataset(uri).add_columns(pa.field("n", pa.int64()))
        for column in ("a", "c"):
            lance.dataset(uri).create_scalar_index(column, "BTREE")
    ids = {field.name: field.id for field in lance_spark.open(uris["ours"]).lance_schema.fields}
    steps = [(0, "c"), (0, "a"), (1, "n"), (1, "n"), (0, "a"), (1, "a")]
    for number, (fragment, column) in enumerate(steps):
        for name, put in (("ours", replace), ("theirs", reference_replace)):
            path = new_file(uris[name], f"new{number}", column, [number * 10 + row for row in range(3)])
            put(uris[name], fragment, ids[column], path)
        left, right = checked(uris["ours"]), checked(uris["theirs"])
        assert left.to_table().equals(right.to_table())
        for one, other in zip(left.fragments, right.fragments, strict=True):
            assert [file.fields for file in one.files] == [file.fields for file in other.files]
        mine, reference = (
            {index["name"]: set(index["fragment_ids"]) for index in lance.dataset(uri).list_indices()}
            for uri in uris.values()
        )
        assert mine == reference
        assert isinstance(operation_of(left), DataReplacement)
        assert isinstance(operation_of(right), DataReplacement)


@pytest.mark.parametrize(("fragment", "field"), [(7, 0), (0, 99)])
def test_what_is_not_there(tmp_path: Path, fragment: int, field: int) -> None:
    uri = make(tmp_path)
    with pytest.raises(InvalidInputError):
        replace(uri, fragment, field, new_file(uri, "new", "a", [1, 2, 3]))
    assert checked(uri).version == 2


def other_file(dataset: lance.LanceDataset, fragment: int, field: int) -> None:
    reference_replace(dataset.uri, fragment, field, new_file(dataset.uri, "theirs", "a", [4, 5, 6]))


# What ours does after theirs, and what the reference says of it.
CASES = {
    "append": (lambda d: lance.write_dataset(rows(), d.uri, mode="append"), None),
    "delete": (lambda d: d.delete("a = 0"), None),
    "the fragment": (lambda d: d.delete("a < 3"), IncompatibleConflictError),
    "update": (lambda d: d.update({"a": "9"}, where="a = 0"), RetryableConflictError),
    "update of another fragment": (lambda d: d.update({"a": "9"}, where="a = 4"), None),
    "compaction": (lambda d: d.optimize.compact_files(), RetryableConflictError),
    "drop of another": (lambda d: d.drop_columns(["b"]), None),
    "drop of the field": (lambda d: d.drop_columns(["a"]), IncompatibleConflictError),
    "overwrite": (lambda d: lance.write_dataset(rows(), d.uri, mode="overwrite"), IncompatibleConflictError),
    "restore": (lambda d: lance.dataset(d.uri, version=1).restore(), IncompatibleConflictError),
    "the same field": (lambda d: other_file(d, 0, 0), RetryableConflictError),
    "another fragment": (lambda d: other_file(d, 1, 0), None),
    "config": (lambda d: d.update_config({"k": "v"}), None),
    "schema metadata": (lambda d: d.update_schema_metadata({"k": "v"}), None),
}


@pytest.mark.parametrize("name", CASES)
def test_beside_other_writers(tmp_path: Path, name: str) -> None:
    committed, expected = CASES[name]
    verdicts: list[object] = []
    for who, put in (("ours", replace), ("theirs", reference_replace)):
        (tmp_path / who).mkdir()
        uri = make(tmp_path / who)
        path = new_file(uri, "new", "a", [7, 8, 9])
        committed(lance.dataset(uri))
        try:
            put(uri, 0, 0, path, read_version=2)
            verdicts.append(None)
        except LanceError as error:
            verdicts.append(type(error))
        except OSError as error:
            verdicts.append(RetryableConflictError if "etryable" in str(error) else IncompatibleConflictError)
        checked(uri)
    assert verdicts == [expected, expected]


def test_a_new_index_loses_the_fragment(tmp_path: Path) -> None:
    """The reference retries here; taking the fragment out of the index is as right."""
    uri = make(tmp_path)
    path = new_file(uri, "new", "a", [7, 8, 9])
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    replace(uri, 0, 0, path, read_version=2)
    reference = lance.dataset(uri)
    assert reference.to_table(filter="a >= 5")["a"].to_pylist() == [7, 9, 5]
    assert checked(uri).to_table()["a"].to_pylist() == [7, 9, 3, 4, 5]
