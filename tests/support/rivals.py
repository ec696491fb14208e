"""Every operation of the wire as a step of one writer, by this library and by the reference library, for pairs of them.

The table has the columns id, v and w, the rows 0 to 4 in fragment 0 (version 1) and 5 to 9 in fragment 1 (version 2).
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import lance.file
import numpy as np
import pyarrow as pa
from lance.fragment import DataFile as ReferenceFile

import lance_spark
from lance_spark import BasePath
from lance_spark.file_version import FileVersion
from lance_spark.table.columns.backfill import commit_backfill, plan_new_values
from lance_spark.table.commits.commit import Commit, NewTable
from lance_spark.table.dataset import Dataset
from lance_spark.table.maintenance.compaction import run_task
from lance_spark.table.maintenance.compaction_options import CompactionOptions
from lance_spark.table.maintenance.compaction_plan import CompactionTask
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.operations.base import CommittableOperation, OperationKind
from lance_spark.table.operations.data_replacement import DataReplacement
from lance_spark.table.operations.reserve_fragments import ReserveFragments
from lance_spark.table.operations.restore import Restore
from lance_spark.table.operations.rewrite import Rewrite, RewriteGroup
from lance_spark.table.row_level.plain_target import PlainTarget
from lance_spark.table.row_level.row_verbs import write_rows
from lance_spark.table.row_level.write_target import WriteMode
from lance_spark.table.rows.fragment import DataFile, FragmentId
from lance_spark.table.versions.changes import add_bases
from lance_spark.table.writing.filled_columns import write_backfill
from lance_spark.table.writing.modes import APPEND, OVERWRITE
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import CommitOptions
from tests.support.model import Row, State, shown_table

K = OperationKind
Effect = Callable[[State, State], State]
NAMES = {"id": "id", "v": "v", "w": "w"}
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("w", pa.int32())])


@dataclass(frozen=True)
class Step:
    """One operation on a version that may be old by now; each way of doing it tries once.

    Attributes:
        effect: what it makes of the newest version, given the one that was read.
        reference: None if the reference library has no way to do it.
        holds: whether what it has set, beside rows and columns, is there.
    """

    name: str
    kind: OperationKind
    effect: Effect
    own: Callable[[Dataset], object]
    reference: Callable[[lance.LanceDataset], object] | None
    holds: Callable[[Dataset], bool] = lambda dataset: True


def row(number: int) -> Row:
    return {"id": number, "v": number * 10, "w": number}


def table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(item) for item in rows], schema=SCHEMA)


def states() -> dict[int, State]:
    first = State(NAMES, {number: row(number) for number in range(5)})
    return {1: first, 2: first.with_rows(row(number) for number in range(5, 10))}


def make(uri: str, *, stable_row_ids: bool = False) -> None:
    """The table, with the files of two indices over v and w that no version knows."""
    rows = table([row(number) for number in range(5)])
    first = lance_spark.write(rows, uri, enable_stable_row_ids=stable_row_ids)
    lance_spark.write(table([row(number) for number in range(5, 10)]), uri, mode="append")
    copied = f"{uri}-indexed"
    shutil.copytree(uri, copied)
    for column in ("v", "w"):
        lance.dataset(copied).create_scalar_index(column, "BTREE", name=f"{column}_index")
    shutil.copytree(f"{copied}/_indices", f"{uri}/_indices")
    assert first.version == 1


class Copies:
    """Copies of the table, made of links to its files; "start" is the table itself."""

    def __init__(self, folder: Path, *, stable_row_ids: bool = False) -> None:
        self.folder = folder
        make(str(folder / "start"), stable_row_ids=stable_row_ids)

    def copy(self, origin: str, name: str) -> str:
        shutil.rmtree(self.folder / name, ignore_errors=True)
        shutil.copytree(self.folder / origin, self.folder / name, copy_function=os.link)
        indexed = self.folder / f"{name}-indexed"
        if not indexed.exists():
            indexed.symlink_to(self.folder / "start-indexed")
        return str(self.folder / name)


def troubles(uri: str, outcomes: list[State]) -> list[str]:
    """What is wrong with the newest version, which must show one of the outcomes to both libraries."""
    mine = lance_spark.open(uri).to_table()
    matching = [state for state in outcomes if state.shown() == shown_table(mine)]
    if not matching:
        return [f"we read {mine.to_pylist()}"]
    try:
        return troubles_of_reference(uri, matching[0])
    except (OSError, ValueError) as error:
        return [f"the reference cannot read it: {error}"]


def troubles_of_reference(uri: str, state: State) -> list[str]:
    found = []
    reference = lance.dataset(uri)
    reference.validate()
    if shown_table(reference.to_table()) != state.shown():
        found.append("the reference reads other rows")
    if lance_spark.open(uri).indices():
        for key in ("v", "w"):
            name = state.name(key)
            known = state.matching(lambda row, key=key: (row.get(key) or 0) >= 20)
            if name is not None and set(reference.to_table(filter=f"{name} >= 20")["id"].to_pylist()) != known:
                found.append(f"an index over {name} is wrong")
    return found


def same(base: State, newest: State) -> State:
    return newest


def append(number: int) -> Step:
    """New rows, the first of which has this id."""
    new = [row(number), row(number + 1)]

    def own(base: Dataset) -> object:
        return save(base, table(new), APPEND)

    def reference(base: lance.LanceDataset) -> object:
        fragments = lance.fragment.write_fragments(table(new), base, mode="append")
        return commit(base, lance.LanceOperation.Append(fragments))

    return Step("append", K.APPEND, lambda _, newest: newest.with_rows(new), own, reference)


def _overwrite() -> Step:
    new = [row(100), row(101)]

    def reference(base: lance.LanceDataset) -> object:
        fragments = lance.fragment.write_fragments(table(new), base, mode="append")
        return commit(base, lance.LanceOperation.Overwrite(SCHEMA, fragments))

    return Step(
        "overwrite",
        K.OVERWRITE,
        lambda *_: State(NAMES, {item["id"]: item for item in new}),
        lambda base: save(base, table(new), OVERWRITE),
        reference,
    )


def _delete(name: str, condition: str, ids: set[int]) -> Step:
    return Step(
        f"delete {name}",
        K.DELETE,
        lambda _, newest: newest.without(ids),
        lambda base: base.delete(condition),
        lambda base: base.delete(condition, conflict_retries=0),
    )


def _update(number: int) -> Step:
    where = f"id = {number}"
    return Step(
        f"update {number}",
        K.UPDATE,
        lambda _, newest: newest.changed({number}, lambda item: {"v": item.get("v", 0) + 1}),
        lambda base: base.update({"v": "v + 1"}, where),
        lambda base: base.update({"v": "v + 1"}, where=where, conflict_retries=0),
    )


def _upsert() -> Step:
    source = [{"id": 1, "v": 77, "w": 78}, {"id": 20, "v": 87, "w": 88}]

    def reference(base: lance.LanceDataset) -> object:
        builder = base.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        return builder.conflict_retries(0).execute(table(source))

    def effect(base: State, newest: State) -> State:
        # A key that has gone meanwhile is not matched any more.
        chosen = source[1:] if 1 not in newest.rows and 1 in base.rows else source
        return newest.with_rows({**newest.rows.get(item["id"], {}), **item} for item in chosen)

    return Step("upsert 1,20", K.UPDATE, effect, lambda base: base.merge(table(source), ["id"]), reference)


def _in_place() -> Step:
    """Another v of row 1, in a file of that column."""

    def own(base: Dataset) -> object:
        plan = plan_new_values(base.location, base.manifest, ["v"])
        bases = base.location.bases(base.manifest)
        address = np.array([1], np.uint64)
        values = pa.table({"v": pa.array([500], pa.int64())})
        file = write_backfill(base.location.store, bases, plan, base.fragments[0], address, values)
        assert file is not None
        return commit_backfill(base.location, base.manifest, plan, [file])

    def reference(base: lance.LanceDataset) -> object:
        source = pa.table({"id": pa.array([1], pa.int64()), "v": pa.array([500], pa.int64())})
        fragment, fields, offsets = base.get_fragment(0).update_columns(source, left_on="id", with_offsets=True)
        operation = lance.LanceOperation.Update(
            updated_fragments=[fragment],
            fields_modified=fields,
            update_mode="rewrite_columns",
            updated_fragment_offsets={0: offsets},
        )
        return commit(base, operation)

    def effect(_: State, newest: State) -> State:
        return newest.changed({1}, lambda item: {"v": 500})

    return Step("set v 1", K.UPDATE, effect, own, reference)


def _index(column: str) -> Step:
    name = f"{column}_index"

    def own(base: Dataset) -> object:
        indexed = lance_spark.open(f"{base.uri}-indexed")
        return base.commit_indices([index for index in indexed.indices() if index.name == name])

    return Step(
        f"index {column}",
        K.CREATE_INDEX,
        same,
        own,
        lambda base: base.create_scalar_index(column, "BTREE", name=name),
    )


def _rewrite(number: int) -> Step:
    def own(base: Dataset) -> object:
        options = CompactionOptions()
        task = CompactionTask(base.version, (FragmentId(number),), options)
        result = run_task(base.location, base.manifest, task)
        old = tuple(fragment for fragment in base.fragments if fragment.id == number)
        return raw(base, Rewrite((RewriteGroup(old, result.new_fragments),)))

    def reference(base: lance.LanceDataset) -> object:
        old = [fragment.metadata for fragment in base.get_fragments() if fragment.fragment_id == number]
        if not old:
            raise ValueError(f"fragment {number} is gone")
        new = lance.fragment.write_fragments(base.get_fragment(number).to_table(), base, mode="append")
        group = lance.LanceOperation.RewriteGroup(old, new)
        return commit(base, lance.LanceOperation.Rewrite([group], []))

    return Step(f"rewrite {number}", K.REWRITE, same, own, reference)


def _replace(column: str) -> Step:
    field_id, dtype = SCHEMA.get_field_index(column), SCHEMA.field(column).type

    def written(uri: str) -> tuple[str, int]:
        name = f"{uuid.uuid4()}.lance"
        schema = pa.schema([pa.field(column, dtype)])
        path = Path(uri) / "data" / name
        with lance.file.LanceFileWriter(str(path), schema, version="2.2") as writer:
            writer.write_batch(pa.record_batch([pa.array(range(1000, 1005), dtype)], schema=schema))
        return name, path.stat().st_size

    def own(base: Dataset) -> object:
        name, size = written(base.uri)
        file = DataFile(name, (field_id,), (0,), FileVersion.V2_2, size)  # type: ignore[arg-type]
        return raw(base, DataReplacement(((FragmentId(0), file),)))

    def reference(base: lance.LanceDataset) -> object:
        name, size = written(base.uri)
        file = ReferenceFile(name, [field_id], [0], 2, 2, size)
        group = lance.LanceOperation.DataReplacementGroup(0, file)
        return commit(base, lance.LanceOperation.DataReplacement([group]))

    return Step(
        f"replace {column}",
        K.DATA_REPLACEMENT,
        lambda _, newest: newest.changed(range(5), lambda item: {column: 1000 + item["id"]}),
        own,
        reference,
    )


def _bases(name: str) -> Step:
    def reference(base: lance.LanceDataset) -> object:
        return base.add_bases([lance.DatasetBasePath(f"/nowhere/{name}", name)])

    return Step(
        f"base {name}",
        K.UPDATE_BASES,
        same,
        lambda base: add_bases(base.location, base.manifest, [BasePath.at(f"/nowhere/{name}", name)]),
        reference,
        lambda dataset: name in [base.name for base in dataset.manifest.base_paths],
    )


def _restore() -> Step:
    def own(base: Dataset) -> object:
        return raw(base, Restore(1, base.location.at(1).manifest))

    return Step(
        "restore 1",
        K.RESTORE,
        lambda *_: states()[1],
        own,
        lambda base: commit(base, lance.LanceOperation.Restore(1)),
    )


def _config(key: str) -> Step:
    return Step(
        f"config {key}",
        K.UPDATE_CONFIG,
        same,
        lambda base: base.update_config({key: "x"}),
        lambda base: base.update_config({key: "x"}),
        lambda dataset: dataset.config.get(key) == "x",
    )


def _schema_metadata() -> Step:
    return Step(
        "schema k",
        K.UPDATE_CONFIG,
        same,
        lambda base: base.update_schema_metadata({"k": "x"}),
        lambda base: base.update_schema_metadata({"k": "x"}),
        lambda dataset: (dataset.schema.metadata or {}).get(b"k") == b"x",
    )


def _field_metadata() -> Step:
    def holds(dataset: Dataset) -> bool:
        return "v" not in dataset.schema.names or (dataset.schema.field("v").metadata or {}).get(b"k") == b"x"

    return Step(
        "field v",
        K.UPDATE_CONFIG,
        same,
        lambda base: base.update_field_metadata({"v": {"k": "x"}}),
        lambda base: base.update_field_metadata({"v": {"k": "x"}}),
        holds,
    )


_STEPS: tuple[Step, ...] = (
    _delete("1", "id = 1", {1}),
    _delete("3", "id = 3", {3}),
    _delete("6", "id = 6", {6}),
    _delete("0-4", "id < 5", set(range(5))),
    _update(1),
    _update(6),
    _upsert(),
    _in_place(),
    _overwrite(),
    _index("v"),
    _index("w"),
    _rewrite(0),
    _rewrite(1),
    Step("reserve", K.RESERVE_FRAGMENTS, same, lambda base: raw(base, ReserveFragments(2)), None),
    Step(
        "add c",
        K.MERGE,
        lambda _, newest: newest.with_column("c", "c", lambda item: None),
        lambda base: base.add_columns(pa.field("c", pa.int64())),
        lambda base: base.add_columns(pa.field("c", pa.int64())),
    ),
    Step(
        "add v*2",
        K.MERGE,
        lambda _, newest: newest.with_column("d", "d", lambda item: item.get("v", 0) * 2),
        lambda base: base.add_columns({"d": "v * 2"}),
        lambda base: base.add_columns({"d": "v * 2"}),
    ),
    Step(
        "widen w",
        K.MERGE,
        same,
        lambda base: base.alter_column("w", data_type=pa.int64()),
        lambda base: base.alter_columns({"path": "w", "data_type": pa.int64()}),
    ),
    Step(
        "drop v",
        K.PROJECT,
        lambda _, newest: newest.without_column("v"),
        lambda base: base.drop_columns(["v"]),
        lambda base: base.drop_columns(["v"]),
    ),
    Step(
        "rename w",
        K.PROJECT,
        lambda _, newest: newest.renamed("w", "ww"),
        lambda base: base.rename_columns({"w": "ww"}),
        lambda base: base.alter_columns({"path": "w", "name": "ww"}),
    ),
    Step(
        "require v",
        K.PROJECT,
        same,
        lambda base: base.alter_column("v", nullable=False),
        lambda base: base.alter_columns({"path": "v", "nullable": False}),
    ),
    _restore(),
    _config("k"),
    _config("l"),
    _schema_metadata(),
    _field_metadata(),
    _bases("a"),
    _bases("b"),
    _replace("v"),
    _replace("w"),
)

OURS = (append(30), *_STEPS)
"""All operations, some twice: on the same rows, columns or keys and on others."""

THEIRS = (append(40), *_STEPS)
"""The same with other new rows."""


def save(base: Dataset, rows: pa.Table, mode: str) -> Manifest:
    target = PlainTarget.of(base.location, base.manifest).taking(rows.schema, mode=WriteMode(mode))
    return write_rows(target, RowSource.of(rows), CommitOptions(), WriteMode(mode))


def raw(base: Dataset, operation: CommittableOperation) -> Manifest:
    transaction = Transaction.new(base.version, operation)
    return Commit(base.location.history, base.manifest, transaction, NewTable(FileVersion.V2_2)).run()


def commit(base: lance.LanceDataset, operation: Any) -> object:
    return lance.LanceDataset.commit(base.uri, operation, read_version=base.version)
