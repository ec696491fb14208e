"""The first version of a partitioned table, with the rows that make it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import AlreadyExistsError
from lance_spark.namespace.directory.catalog_table import CatalogTable
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.partitioned.partitioned_target import PartitionedTarget
from lance_spark.partitioned.save import PartitionBy, create_partitioned, new_partitioned
from lance_spark.partitioned.table import open_partitioned
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.table.commits.retry import cleanup_on_failure
from lance_spark.table.row_level.row_writer import WrittenSplit
from lance_spark.table.row_level.write_target import WriteMode
from lance_spark.table.writing.save import CommitOptions

ROWS = pa.table({"id": [1, 2], "k": ["a", "b"]})
BY_K = [PartitionBy("k", ("k",), Identity())]


def files(root: str) -> set[Path]:
    return {path for path in Path(root).rglob("*") if path.is_file()}


def planned(root: str) -> PartitionedTarget:
    new = new_partitioned(root, ROWS.schema, BY_K, properties={"team": "sales"})
    return PartitionedTarget.of(new).taking(ROWS.schema, mode=WriteMode.OVERWRITE)


def written(target: PartitionedTarget) -> tuple[WrittenSplit, ...]:
    """Writes the rows like a task, which gets the target over the wire."""
    with pickle.loads(pickle.dumps(target)).writer() as writer:
        for batch in ROWS.to_batches():
            writer.write(batch)
        return writer.close()


def test_rows_make_the_first_version(root: str) -> None:
    target = planned(root)
    new = written(target)
    assert not (Path(root) / "__manifest").exists()
    made = target.save(WriteMode.OVERWRITE, new, CommitOptions(message="first"))
    assert (made.version, made.config) == (1, {"team": "sales"})
    opened = open_partitioned(root)
    assert opened.version == 1
    assert opened.to_table().sort_by("id").equals(ROWS)
    (first,) = lance_spark.open(root).versions()
    assert (first.version, first.operation, first.message) == (1, "overwrite", "first")


@pytest.mark.parametrize("other", ["partitioned", "plain", "catalog"])
def test_a_writer_who_was_first_keeps_the_root(root: str, other: str) -> None:
    target = planned(root)
    new = written(target)
    ours = files(root)
    if other == "partitioned":
        create_partitioned(root, ROWS.schema, BY_K, properties={"team": "other"})
    elif other == "plain":
        lance_spark.write(ROWS, root)
    else:
        DirectoryNamespace(root).create_namespace(("db",))
    theirs = files(root) - ours
    with pytest.raises(AlreadyExistsError), cleanup_on_failure(lambda: target.remove_files(new)):
        target.save(WriteMode.OVERWRITE, new, CommitOptions())
    assert files(root) == theirs


def test_a_writer_who_commits_at_the_same_time_keeps_the_root(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = planned(root)
    new = written(target)
    ours = files(root)
    replace_rows = CatalogTable.replace_rows

    def second(*arguments: Any, **named: Any) -> Any:
        monkeypatch.undo()
        create_partitioned(root, ROWS.schema, BY_K, properties={"team": "other"})
        return replace_rows(*arguments, **named)

    monkeypatch.setattr(CatalogTable, "replace_rows", second)
    with (
        pytest.raises(AlreadyExistsError, match="another writer"),
        cleanup_on_failure(lambda: target.remove_files(new)),
    ):
        target.save(WriteMode.OVERWRITE, new, CommitOptions())
    assert not ours & files(root)
    assert open_partitioned(root).config == {"team": "other"}
    assert open_partitioned(root).to_table().num_rows == 0
