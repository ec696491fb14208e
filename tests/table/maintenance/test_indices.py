"""Metadata of indices is committed, replaced and removed; other writers' changes make it fail where it must."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import (
    CommitConflictError,
    IncompatibleConflictError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
    UnsupportedFeatureError,
)
from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.table.commits.commit import Commit, NewTable
from lance_spark.table.commits.conflict_rules import ConflictContext
from lance_spark.table.commits.conflicts import check_conflict
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.operations.base import CommittableOperation, OperationKind, OtherOperation
from lance_spark.table.operations.base import OperationKind as K
from lance_spark.table.operations.create_index import CreateIndex
from lance_spark.table.operations.manifest_builder import largest_fragment_id
from lance_spark.table.operations.reserve_fragments import ReserveFragments
from lance_spark.table.operations.rewrite import Rewrite
from lance_spark.table.rows.fragment import MAX_FRAGMENT_ID

ONE_ROW = pa.table({"a": [1]})
SCHEMA = from_arrow_schema(pa.schema([("a", pa.int64())]))


def written(uri: str) -> None:
    """Two fragments of five rows, an index over `a` by the reference library."""
    table = pa.table({"a": pa.array(range(10), pa.int64()), "b": [str(number % 3) for number in range(10)]})
    lance.write_dataset(table, uri, max_rows_per_file=5)
    lance.dataset(uri).create_scalar_index("a", "BTREE")


def names(uri: str) -> list[str]:
    return sorted(index["name"] for index in lance.dataset(uri).list_indices())


def test_an_index_is_dropped(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    written(uri)
    lance.dataset(uri).create_scalar_index("b", "BITMAP")
    assert [index.name for index in lance_spark.open(uri).indices()] == ["a_idx", "b_idx"]
    dropped = lance_spark.open(uri).drop_index("a_idx")
    assert dropped.version == 4
    assert names(uri) == ["b_idx"]
    assert lance.dataset(uri).to_table(filter="a = 3").num_rows == 1
    assert lance.dataset(uri).to_table(filter="b = '1'").num_rows == 3
    with pytest.raises(NotFoundError):
        dropped.drop_index("a_idx")
    assert lance_spark.open(uri).drop_index("b_idx").manifest.index_section is None
    assert lance.dataset(uri).count_rows() == 10


def test_an_index_comes_back(tmp_path: Path) -> None:
    """What another library has built is committed here."""
    uri = str(tmp_path / "t")
    written(uri)
    (index,) = lance_spark.open(uri).indices()
    lance_spark.open(uri).drop_index("a_idx")
    made = lance_spark.open(uri).commit_indices([index])
    assert made.indices() == (index,)
    dataset = lance.dataset(uri)
    assert "ScalarIndexQuery" in dataset.scanner(filter="a = 3").explain_plan()
    assert dataset.to_table(filter="a = 3")["a"].to_pylist() == [3]
    transaction = dataset.read_transaction(made.version)
    assert type(transaction.operation).__name__ == "CreateIndex"
    # Another one of the same name takes its place.
    other = IndexMetadata.of(bytes(16), "a_idx", [0], made.version, [])
    assert made.commit_indices([other]).indices() == (other,)
    assert lance.dataset(uri).to_table(filter="a = 3")["a"].to_pylist() == [3]


def test_invalid_arguments_are_refused(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    written(uri)
    dataset = lance_spark.open(uri)
    with pytest.raises(InvalidInputError, match="fields"):
        dataset.commit_indices([IndexMetadata.of(bytes(16), "x", [7], 1, [0])])
    with pytest.raises(InvalidInputError):
        dataset.commit_indices([])
    with pytest.raises(InvalidInputError):
        dataset.commit_indices([IndexMetadata.of(bytes(16), "__lance_mem_wal", [0], 1, [0])])
    assert lance_spark.open(uri).version == 2


def test_the_message_survives(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    written(uri)
    transaction = lance_spark.open(uri).location.history.transaction(
        lance_spark.open(uri).location.history.load_latest()
    )
    assert transaction is not None
    operation = transaction.operation
    assert isinstance(operation, CreateIndex)
    assert operation.names == {"a_idx"}
    assert Transaction.from_bytes(transaction.to_bytes()) == transaction


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda dataset: lance.write_dataset(dataset.to_table(), dataset.uri, mode="append"), None),
        (lambda dataset: dataset.delete("a = 1"), None),
        (lambda dataset: dataset.delete("a < 5"), None),
        (lambda dataset: dataset.update({"a": "a + 100"}, where="a = 1"), None),
        (lambda dataset: dataset.update_config({"k": "v"}), None),
        (lambda dataset: dataset.add_columns({"c": "a"}), None),
        (lambda dataset: dataset.drop_columns(["b"]), None),
        (lambda dataset: dataset.alter_columns({"path": "a", "name": "renamed"}), None),
        (lambda dataset: dataset.create_scalar_index("b", "BITMAP"), None),
        (lambda dataset: dataset.create_scalar_index("a", "BITMAP", replace=True), RetryableConflictError),
        (lambda dataset: dataset.optimize.compact_files(), RetryableConflictError),
        (lambda dataset: dataset.alter_columns({"path": "a", "data_type": pa.int32()}), RetryableConflictError),
        (lambda dataset: dataset.drop_columns(["a"]), RetryableConflictError),
        (lambda dataset: lance_spark.write(ONE_ROW, dataset.uri, mode="overwrite"), IncompatibleConflictError),
        (lambda dataset: lance_spark.open(dataset.uri).overwrite(dataset.to_table()), RetryableConflictError),
        (lambda dataset: dataset.restore(), RetryableConflictError),
    ],
    ids=[
        "append", "delete", "delete fragment", "update", "config", "add column", "drop another", "rename",
        "another index", "the same index", "compaction", "cast", "drop", "other columns", "overwrite", "restore",
    ],
)  # fmt: skip
def test_an_index_follows_others(
    tmp_path: Path, act: Callable[[lance.LanceDataset], object], error: type[CommitConflictError] | None
) -> None:
    uri = str(tmp_path / "t")
    written(uri)
    (index,) = lance_spark.open(uri).indices()
    dataset = lance_spark.open(uri).drop_index("a_idx")
    act(lance.dataset(uri))
    expected = lance.dataset(uri).to_table().sort_by(lance.dataset(uri).schema.names[0])
    if error is not None:
        with pytest.raises(error):
            dataset.commit_indices([index])
        return
    dataset.commit_indices([index])
    after = lance.dataset(uri)
    assert "a_idx" in names(uri)
    assert after.to_table().sort_by(after.schema.names[0]) == expected
    column = after.schema.names[0]
    for number in expected[column].to_pylist():
        found = after.to_table(filter=f"{column} = {number}")[column].to_pylist()
        assert found == [number] * expected[column].to_pylist().count(number)


def test_a_drop_starts_over_when_the_index_was_written_anew(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    written(uri)
    base = lance_spark.open(uri)
    lance.dataset(uri).optimize.compact_files()
    operation = CreateIndex((), base.indices())
    with pytest.raises(RetryableConflictError, match="not the one"):
        Commit(
            base.location.history,
            base.manifest,
            Transaction.new(base.version, operation),
            NewTable(base.manifest.file_version),  # type: ignore[arg-type]
        ).run()
    assert base.drop_index("a_idx").indices() == ()


def test_reserved_fragments(tmp_path: Path) -> None:
    own, committed = str(tmp_path / "ours"), str(tmp_path / "theirs")
    for uri in (own, committed):
        written(uri)
    dataset = lance_spark.open(own)

    def reserve(number: int) -> lance_spark.table.manifests.manifest.Manifest:
        latest = lance_spark.open(own).manifest
        transaction = Transaction.new(latest.version, ReserveFragments(number))
        return Commit(dataset.location.history, latest, transaction, NewTable(latest.file_version)).run()  # type: ignore[arg-type]

    assert largest_fragment_id(reserve(3)) == 4
    lance.write_dataset(dataset.to_table(), own, mode="append")
    assert [fragment.id for fragment in lance_spark.open(own).fragments] == [0, 1, 5]
    with pytest.raises(UnsupportedFeatureError):
        reserve(MAX_FRAGMENT_ID)
    lance.dataset(committed).optimize.compact_files()
    history = lance_spark.open(committed).location.history
    found = history.transaction(history.load(3))
    assert found is not None
    assert found.operation == ReserveFragments(1)


# "ok" commits, "R" is retryable, "X" is incompatible; none of the fragments or columns is concerned.
COMMON = {K.OVERWRITE: "X", K.RESTORE: "X", K.UPDATE_MEM_WAL_STATE: "X", K.DATA_OVERLAY: "R", K.UNKNOWN: "R"}
EXPECTED = {
    K.REWRITE: COMMON,
    K.RESERVE_FRAGMENTS: COMMON,
    K.CREATE_INDEX: COMMON | dict.fromkeys((K.CREATE_INDEX, K.OVERWRITE, K.RESTORE), "R"),
}


@pytest.mark.parametrize("committed", list(OperationKind), ids=lambda kind: kind.value)
@pytest.mark.parametrize(
    "own", [Rewrite(()), ReserveFragments(1), CreateIndex()], ids=lambda operation: operation.kind.value
)
def test_cells(own: CommittableOperation, committed: OperationKind) -> None:
    try:
        check_conflict(ConflictContext(own, OtherOperation(committed), SCHEMA, SCHEMA, 7))
        verdict = "ok"
    except CommitConflictError as error:
        verdict = {RetryableConflictError: "R", IncompatibleConflictError: "X"}[type(error)]
    assert verdict == EXPECTED[own.kind].get(committed, "ok")
