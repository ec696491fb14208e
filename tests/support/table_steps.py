"""Changes of a table as pairs: what a writer does, and what the table is afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_spark.errors import NotFoundError
from lance_spark.storage import open_store
from lance_spark.table.columns.add_columns import ColumnsToAdd, add_columns
from lance_spark.table.columns.alter_column import Alteration, alter_column
from lance_spark.table.commits.commit import RetryPolicy
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.refs.tagging import create_tag, delete_tag, update_tag
from lance_spark.table.row_level.merge import MergeActions
from lance_spark.table.versions.changes import restore, update_config
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import CommitOptions
from tests.support.row_verbs import delete_rows, merge_rows, save, update_rows

NO_WAIT = RetryPolicy(sleep=lambda seconds: None)
OPTIONS = CommitOptions(policy=NO_WAIT)


@dataclass(frozen=True)
class Content:
    """What a table holds: its rows in any order, its config, the versions that its tags name, and its columns."""

    rows: tuple[int, ...]
    config: tuple[tuple[str, str], ...] = ()
    tags: tuple[tuple[str, int], ...] = ()
    columns: tuple[str, ...] = ("a",)

    @classmethod
    def of(cls, location: TableLocation) -> Content:
        """What a reader finds."""
        dataset = Dataset(location, location.history.load_latest().manifest)
        return cls(
            tuple(sorted(dataset.to_table()["a"].to_pylist())),
            tuple(sorted(dataset.config.items())),
            tuple(sorted((name, tag.version) for name, tag in dataset.tags().items())),
            tuple(dataset.schema.names),
        )

    def with_rows(self, *values: int) -> Content:
        return replace(self, rows=tuple(sorted([*self.rows, *values])))

    def without_rows(self, *values: int) -> Content:
        return replace(self, rows=tuple(row for row in self.rows if row not in values))

    def with_config(self, **entries: str) -> Content:
        return replace(self, config=tuple(sorted((dict(self.config) | entries).items())))

    def with_tags(self, **entries: int | None) -> Content:
        tags = {name: version for name, version in (dict(self.tags) | entries).items() if version is not None}
        return replace(self, tags=tuple(sorted(tags.items())))


@dataclass(frozen=True)
class Step:
    """One change.

    Attributes:
        do: makes it, as a writer that opens the table at `location` itself.
        then: the content after it.
        follows: False if it may say that it conflicts with an append by another writer.
    """

    name: str
    do: Callable[[TableLocation], object]
    then: Callable[[Content], Content]
    follows: bool = True


FIRST = tuple(range(10))
BEGIN = Content((*FIRST, 20, 21), (("k", "v"),), (("old", 1),))


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


def append(location: TableLocation, *values: int) -> int:
    """The version that an append has made."""
    return save(location, RowSource.of(rows(*values)), mode="append", options=OPTIONS).version


def make_table(location: TableLocation) -> None:
    """A table with the content `BEGIN`, at version 4: two fragments of the first version, one with deletions."""
    save(location, RowSource.of(rows(*FIRST)), options=OPTIONS)
    append(location, 20, 21, 22)
    delete_rows(location, newest(location), "a = 22", OPTIONS)
    update_config(location, newest(location), {"k": "v"}, NO_WAIT)
    create_tag(location, "old", 1, NO_WAIT)


def copy_table(source: str, target: str) -> None:
    """The same objects below another root; much faster than making the table again."""
    store, copy = open_store(source), open_store(target)
    for entry in store.list("", recursive=True):
        copy.put(entry.path, store.read(entry.path))


def newest(location: TableLocation) -> Manifest:
    manifest = location.latest()
    if manifest is None:
        raise NotFoundError("there is no table")
    return manifest


def _merge(location: TableLocation) -> None:
    """Writes row 5 anew and inserts 60."""
    actions = MergeActions.of("update", "insert", None)
    merge_rows(location, newest(location), RowSource.of(rows(5, 60)), "a", actions, OPTIONS)


def _overwrite(location: TableLocation) -> None:
    save(location, RowSource.of(rows(50, 51)), mode="overwrite", options=OPTIONS)


STEPS = (
    Step("append", lambda at: append(at, 30, 31), lambda was: was.with_rows(30, 31)),
    Step(
        "delete",
        lambda at: delete_rows(at, newest(at), "a < 4 OR a = 20", OPTIONS),
        lambda was: was.without_rows(0, 1, 2, 3, 20),
    ),
    Step(
        "update",
        lambda at: update_rows(at, newest(at), {"a": "a + 100"}, "a < 2", OPTIONS),
        lambda was: was.without_rows(0, 1).with_rows(100, 101),
    ),
    Step("merge", _merge, lambda was: was.with_rows(60)),
    Step(
        "add columns",
        lambda at: add_columns(at, newest(at), ColumnsToAdd.of({"twice": "a * 2"}), OPTIONS),
        lambda was: replace(was, columns=("a", "twice")),
    ),
    Step(
        "forbid nulls",
        lambda at: alter_column(at, newest(at), Alteration("a", nullable=False), OPTIONS),
        lambda was: was,
    ),
    Step("overwrite", _overwrite, lambda was: replace(was, rows=(50, 51))),
    Step("restore", lambda at: restore(at, 1, NO_WAIT), lambda was: replace(was, rows=FIRST, config=())),
    Step("config", lambda at: update_config(at, newest(at), {"c": "1"}, NO_WAIT), lambda was: was.with_config(c="1")),
    Step("create tag", lambda at: create_tag(at, "new", 2, NO_WAIT), lambda was: was.with_tags(new=2)),
    Step("move tag", lambda at: update_tag(at, "old", 2), lambda was: was.with_tags(old=2)),
    Step("delete tag", lambda at: delete_tag(at, "old"), lambda was: was.with_tags(old=None)),
)
