"""The table of conflict rules is complete, and its cells say what the reference library does."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark._proto import transaction_pb2
from lance_spark.errors import CommitConflictError, IncompatibleConflictError, RetryableConflictError
from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.table.commits.conflict_rules import ConflictContext
from lance_spark.table.commits.conflicts import RULES, check_conflict
from lance_spark.table.operations.append import Append
from lance_spark.table.operations.base import CommittableOperation, OperationKind, OtherOperation
from lance_spark.table.operations.clone import Clone
from lance_spark.table.operations.committable import COMMITTABLE
from lance_spark.table.operations.delete import Delete
from lance_spark.table.operations.overwrite import Overwrite
from lance_spark.table.operations.update import Update
from lance_spark.table.operations.update_bases import UpdateBases
from lance_spark.table.rows.fragment import FragmentId
from tests.support.table.conflicts import MEASURED, K, in_between

SCHEMA = from_arrow_schema(pa.schema([("a", pa.int64())]))


def test_every_pair_has_a_rule() -> None:
    assert set(RULES) == set(COMMITTABLE)
    for own, row in RULES.items():
        assert set(row) == set(OperationKind), f"{own.value} lacks {set(OperationKind) - set(row)}"


def test_every_operation_of_the_wire_has_a_kind() -> None:
    members = {field.name for field in transaction_pb2.Transaction.DESCRIPTOR.oneofs_by_name["operation"].fields}
    assert {kind.value for kind in OperationKind} - {"unknown"} == members


# "ok" commits, "R" is retryable, "X" is incompatible; measured with the reference library, unknown ones aside, and
# what follows other rows of the same table (`same_table`, `computed_again`).
EXPECTED = {
    K.APPEND: {K.UPDATE_MEM_WAL_STATE: "X", K.DATA_OVERLAY: "R", K.UNKNOWN: "R"},
    K.DELETE: {
        K.OVERWRITE: "R",
        K.MERGE: "R",
        K.RESTORE: "R",
        K.UPDATE_MEM_WAL_STATE: "X",
        K.DATA_OVERLAY: "R",
        K.UNKNOWN: "R",
    },
    K.UPDATE: {
        K.OVERWRITE: "R",
        K.MERGE: "R",
        K.RESTORE: "R",
        K.UPDATE_MEM_WAL_STATE: "X",
        K.DATA_OVERLAY: "R",
        K.UNKNOWN: "R",
    },
    K.OVERWRITE: {K.OVERWRITE: "R", K.UPDATE_MEM_WAL_STATE: "X", K.DATA_OVERLAY: "R", K.UNKNOWN: "R"},
    K.CLONE: dict.fromkeys(K, "X"),
    # Bases whose messages are not known may be ours.
    K.UPDATE_BASES: {K.UPDATE_BASES: "R", K.UPDATE_MEM_WAL_STATE: "X", K.DATA_OVERLAY: "R", K.UNKNOWN: "R"},
}
ERRORS = {"R": RetryableConflictError, "X": IncompatibleConflictError}


@pytest.mark.parametrize("committed", list(OperationKind), ids=lambda kind: kind.value)
@pytest.mark.parametrize(
    "own",
    [
        Append(()),
        Delete((), (), "a = 1"),
        Update((), (), ()),
        Overwrite((), SCHEMA),
        Clone(True, None, 1, "/t"),
        UpdateBases(()),
    ],
    ids=lambda operation: operation.kind.value,
)
def test_cells(own: CommittableOperation, committed: OperationKind) -> None:
    context = ConflictContext(own, OtherOperation(committed), SCHEMA, SCHEMA, 7)
    verdict = EXPECTED[own.kind].get(committed, "ok")
    if verdict == "ok":
        check_conflict(context)
        return
    with pytest.raises(ERRORS[verdict]) as caught:
        check_conflict(context)
    assert (caught.value.own, caught.value.committed, caught.value.table_version) == (
        own.kind.value,
        committed.value,
        7,
    )


@pytest.mark.parametrize("committed", [K.OVERWRITE, K.RESTORE], ids=lambda kind: kind.value)
@pytest.mark.parametrize(
    "own", [Append(()), Delete((), (), "a = 1"), Update((), (), ())], ids=lambda operation: operation.kind.value
)
def test_other_rows_of_another_table_are_incompatible(own: CommittableOperation, committed: OperationKind) -> None:
    others = [
        pa.schema([("a", pa.int32())]),
        pa.schema([("b", pa.int64())]),
        pa.schema([("a", pa.int64()), ("b", pa.int64())]),
    ]
    theirs = OtherOperation(committed)
    contexts = [ConflictContext(own, theirs, SCHEMA, from_arrow_schema(other), 7) for other in others]
    contexts.append(ConflictContext(own, theirs, SCHEMA, SCHEMA, 7, keeps_places=False))
    for context in contexts:
        with pytest.raises(IncompatibleConflictError):
            check_conflict(context)


def verdict_of(error: Exception) -> str:
    text = str(error)
    return "R" if "etryable" in text else "X"


@pytest.mark.parametrize("committed", MEASURED, ids=lambda kind: kind.value)
@pytest.mark.parametrize("own", [K.APPEND, K.OVERWRITE], ids=lambda kind: kind.value)
def test_pylance_judges_the_same(tmp_path: Path, own: OperationKind, committed: OperationKind) -> None:
    uri = str(tmp_path / "t")
    table = pa.table({"a": pa.array(range(5), pa.int64()), "b": pa.array(range(5), pa.int64())})
    lance.write_dataset(table, uri)
    lance.write_dataset(table, uri, mode="append")
    stale = lance.dataset(uri)
    fragments = lance.fragment.write_fragments(table, uri, mode="append")
    in_between(uri)[committed]()
    newest = lance.dataset(uri)
    operation = (
        lance.LanceOperation.Append(fragments)
        if own is K.APPEND
        else lance.LanceOperation.Overwrite(table.schema, fragments)
    )
    try:
        lance.LanceDataset.commit(uri, operation, read_version=stale.version)
        reference = "ok"
    except (OSError, ValueError) as error:
        reference = verdict_of(error)
    before, after = from_arrow_schema(stale.schema), from_arrow_schema(newest.schema)
    mine = Append(()) if own is K.APPEND else Overwrite((), before)
    try:
        check_conflict(ConflictContext(mine, OtherOperation(committed), before, after, newest.version))
        judged = "ok"
    except CommitConflictError as error:
        judged = "R" if isinstance(error, RetryableConflictError) else "X"
    if (own, committed) == (K.APPEND, K.RESTORE):
        # The reference refuses all appends; here the rows fit, as those after the overwrite with fewer columns do not.
        assert (judged, reference) == ("ok", "X")
    else:
        assert judged == reference


@pytest.mark.parametrize("other_fragment", [True, False], ids=["other fragment", "same fragment"])
@pytest.mark.parametrize("committed", [*MEASURED, K.REWRITE], ids=lambda kind: kind.value)
def test_pylance_judges_updates_the_same(tmp_path: Path, committed: OperationKind, other_fragment: bool) -> None:
    """An update that removes one of two fragments, after theirs, which is about rows of the first one."""
    uri = str(tmp_path / "t")

    def rows(start: int) -> pa.Table:
        return pa.table({"a": pa.array(range(start, start + 5), pa.int64()), "b": pa.array(range(5), pa.int64())})

    lance.write_dataset(rows(0), uri)
    lance.write_dataset(rows(5), uri, mode="append")
    stale = lance_spark.open(uri)
    fragments = lance.fragment.write_fragments(rows(10), uri, mode="append")
    removed = 1 if other_fragment else 0
    (in_between(uri) | {K.REWRITE: lambda: rewrite_first(uri)})[committed]()
    newest = lance_spark.open(uri)
    own = lance.LanceOperation.Update(
        removed_fragment_ids=[removed], updated_fragments=[], new_fragments=fragments, fields_modified=[]
    )
    try:
        lance.LanceDataset.commit(uri, own, read_version=stale.version)
        reference = "ok"
    except (OSError, ValueError) as error:
        reference = verdict_of(error)
    mine = Update((FragmentId(removed),), (), (stale.fragments[0],))
    context = ConflictContext(
        mine,
        OtherOperation(committed),
        stale.lance_schema,
        newest.lance_schema,
        newest.version,
        stale.fragments,
        newest.fragments,
    )
    try:
        check_conflict(context)
        judged = "ok"
    except CommitConflictError as error:
        judged = "R" if isinstance(error, RetryableConflictError) else "X"
    if not other_fragment and committed in (K.DELETE, K.UPDATE):
        # The reference looks at fragments here; which rows are gone is looked at when deletion files are merged.
        assert (judged, reference) == ("ok", "R")
    elif committed is K.RESTORE:
        # The reference refuses it; here it may be computed again, as after the overwrite with fewer columns it may not.
        assert (judged, reference) == ("R", "X")
    elif committed is K.PROJECT:
        # Ours is stricter: the id of the dropped column can be given away again, and our file holds values under it.
        assert (judged, reference) == ("R", "ok")
    else:
        assert judged == reference


def rewrite_first(uri: str) -> None:
    """Compacts the first fragment alone."""
    dataset = lance.dataset(uri)
    dataset.delete("a = 1")
    dataset.optimize.compact_files(target_rows_per_fragment=5, materialize_deletions_threshold=0.0)
