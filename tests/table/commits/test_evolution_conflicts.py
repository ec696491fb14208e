"""Conflicts of operations on columns, cell by cell and beside the reference library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CommitConflictError, IncompatibleConflictError, RetryableConflictError
from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.schema.field import FieldId
from lance_spark.table.commits.conflict_rules import ConflictContext
from lance_spark.table.commits.conflicts import check_conflict
from lance_spark.table.operations.base import CommittableOperation, Operation, OtherOperation
from lance_spark.table.operations.base import OperationKind as K
from lance_spark.table.operations.data_replacement import DataReplacement
from lance_spark.table.operations.merge import Merge, Recomputed
from lance_spark.table.operations.project import Project
from lance_spark.table.operations.update import Update, UpdateMode
from lance_spark.table.rows.fragment import FragmentList
from tests.support.column_tables import make, rows

SCHEMA = from_arrow_schema(pa.schema([("a", pa.int64())]))
WIDER = from_arrow_schema(pa.schema([("a", pa.int64()), ("b", pa.int64())]))
STRICT = from_arrow_schema(pa.schema([pa.field("a", pa.int64(), nullable=False)]))


def judge(
    own: CommittableOperation,
    committed: Operation,
    after: object = SCHEMA,
    fragments_after: FragmentList | None = None,
) -> str:
    context = ConflictContext(own, committed, SCHEMA, after, 7, FragmentList(), fragments_after or FragmentList())  # type: ignore[arg-type]
    try:
        check_conflict(context)
    except CommitConflictError as error:
        named = (error.own, error.committed, error.table_version) == (own.kind.value, committed.kind.value, 7)
        return {RetryableConflictError: "R", IncompatibleConflictError: "X"}[type(error)] if named else "unnamed"
    return "ok"


# "ok" commits, "R" is retryable, "X" is incompatible, if theirs left columns and fragments as they were.
COMMON = {K.OVERWRITE: "R", K.RESTORE: "R", K.UPDATE_MEM_WAL_STATE: "X", K.DATA_OVERLAY: "R", K.UNKNOWN: "R"}
MOVED = (K.UPDATE, K.REWRITE)
CHANGED = (K.APPEND, K.DELETE, K.MERGE, K.PROJECT, K.DATA_REPLACEMENT)
CELLS: dict[str, tuple[CommittableOperation, dict[K, str]]] = {
    "merge": (Merge(FragmentList(), SCHEMA), {**COMMON, **dict.fromkeys((*MOVED, *CHANGED), "R")}),
    "merge by place": (
        Merge(FragmentList(), SCHEMA, recomputed=Recomputed.BY_PLACE),
        {**COMMON, **dict.fromkeys(MOVED, "R")},
    ),
    "merge of values": (Merge(FragmentList(), SCHEMA, recomputed=Recomputed.ALWAYS), COMMON),
    "project": (Project(SCHEMA.fields, True), COMMON),
    "project that forbids nulls": (Project(STRICT.fields, False), COMMON),
    "data replacement": (DataReplacement(()), {**COMMON, K.OVERWRITE: "X", K.RESTORE: "X"}),
}


@pytest.mark.parametrize("committed", list(K), ids=lambda kind: kind.value)
@pytest.mark.parametrize("name", CELLS)
def test_cells(name: str, committed: K) -> None:
    own, expected = CELLS[name]
    assert judge(own, OtherOperation(committed)) == expected.get(committed, "ok")


@pytest.mark.parametrize("committed", [K.MERGE, K.PROJECT, K.UPDATE_CONFIG, K.APPEND])
@pytest.mark.parametrize("name", ["merge by place", "merge of values", "project", "project that forbids nulls"])
def test_other_columns_stand_against_ours(name: str, committed: K) -> None:
    assert judge(CELLS[name][0], OtherOperation(committed), WIDER) == "R"


@pytest.mark.parametrize("committed", [K.OVERWRITE, K.RESTORE])
@pytest.mark.parametrize("name", CELLS)
def test_other_columns_in_place_of_all_are_incompatible(name: str, committed: K) -> None:
    for after in (WIDER, STRICT, from_arrow_schema(pa.schema([("a", pa.int32())]))):
        assert judge(CELLS[name][0], OtherOperation(committed), after) == "X"


def test_columns_that_are_rewritten_must_stay() -> None:
    own = Update((), (), (), fields_modified=(FieldId(0),), mode=UpdateMode.REWRITE_COLUMNS)
    assert judge(own, OtherOperation(K.PROJECT), WIDER) == "ok"
    assert judge(own, OtherOperation(K.PROJECT), STRICT) == "R"
    assert judge(own, OtherOperation(K.PROJECT), from_arrow_schema(pa.schema([("a", pa.int32())]))) == "R"
    assert judge(own, OtherOperation(K.PROJECT), from_arrow_schema(pa.schema([]))) == "R"


# Histories of two writers, by the reference and by our rules.

THEIRS: dict[K, Callable[[lance.LanceDataset], object]] = {
    K.APPEND: lambda d: lance.write_dataset(rows(10, 12), d.uri, mode="append"),
    K.DELETE: lambda d: d.delete("a = 3"),
    K.UPDATE: lambda d: d.update({"a": "a + 10"}, where="a = 3"),
    K.REWRITE: lambda d: d.optimize.compact_files(),
    K.OVERWRITE: lambda d: lance.write_dataset(rows(), d.uri, mode="overwrite"),
    K.CREATE_INDEX: lambda d: d.create_scalar_index("a", "BTREE"),
    K.RESTORE: lambda d: lance.dataset(d.uri, version=1).restore(),
    K.UPDATE_CONFIG: lambda d: d.update_config({"k": "v"}),
    K.PROJECT: lambda d: d.drop_columns(["b"]),
    K.MERGE: lambda d: d.add_columns(pa.field("c", pa.string())),
}
OTHERWISE: dict[tuple[str, K], str] = {
    # The reference calls it incompatible; of other rows with the same columns it may be computed again.
    ("merge", K.RESTORE): "R",
    ("project", K.RESTORE): "R",
    ("merge", K.OVERWRITE): "R",
    ("project", K.OVERWRITE): "R",
    ("merge", K.PROJECT): "R",  # The reference calls it incompatible; run again it makes sense.
    # Ours looks at what became of the columns, and runs again on the new ones.
    ("project", K.PROJECT): "R",
    ("project", K.MERGE): "R",
}


@pytest.mark.parametrize("committed", THEIRS, ids=lambda kind: kind.value)
@pytest.mark.parametrize("name", ["merge", "project"])
def test_pylance_judges_the_same(tmp_path: Path, name: str, committed: K) -> None:
    uri = make(tmp_path)
    stale, base = lance.dataset(uri), lance_spark.open(uri)
    THEIRS[committed](lance.dataset(uri))
    schema = stale.schema.remove(3)
    if name == "merge":
        operation = lance.LanceOperation.Merge([item.metadata for item in stale.get_fragments()], stale.schema)
        own: CommittableOperation = Merge(base.fragments, base.lance_schema)
    else:
        operation = lance.LanceOperation.Project(schema, preserves_nullability=True)
        own = Project(base.lance_schema.fields[:3], True)
    newest = lance_spark.open(uri)
    try:
        lance.LanceDataset.commit(uri, operation, read_version=stale.version)
        reference = "ok"
    except (OSError, ValueError) as error:
        reference = "R" if "etryable" in str(error) else "X"
    found = newest.location.history.transaction(newest.location.at(newest.version))
    assert found is not None
    context = ConflictContext(
        own,
        found.operation,
        base.lance_schema,
        newest.lance_schema,
        newest.version,
        base.fragments,
        newest.fragments,
    )
    try:
        check_conflict(context)
        judged = "ok"
    except CommitConflictError as error:
        judged = "R" if isinstance(error, RetryableConflictError) else "X"
    assert judged == OTHERWISE.get((name, committed), reference)
