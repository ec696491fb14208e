"""An older version comes back as the newest one, as the reference library does it."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CommitConflictError, IncompatibleConflictError, NotFoundError, RetryableConflictError
from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.storage.faults import Fault, Harm
from lance_spark.table.commits.conflict_rules import ConflictContext
from lance_spark.table.commits.conflicts import check_conflict
from lance_spark.table.operations.base import OperationKind as K
from lance_spark.table.operations.base import OtherOperation
from lance_spark.table.operations.manifest_builder import largest_fragment_id
from lance_spark.table.operations.restore import Restore
from lance_spark.table.versions.changes import restore
from tests.support.harmed_tables import NO_WAIT, with_faults

SCHEMA = from_arrow_schema(pa.schema([("a", pa.int64())]))


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


def history_of(uri: str) -> None:
    """Version 1: a=0; 2: config; 3: a=0,1; 4: a=1; 5: another schema, config changed."""
    dataset = lance.write_dataset(rows(0), uri, enable_stable_row_ids=True)
    dataset.update_config({"k": "old"})
    lance.write_dataset(rows(1), uri, mode="append")
    lance.dataset(uri).delete("a = 0")
    dataset = lance.write_dataset(pa.table({"b": ["x", "y"]}), uri, mode="overwrite")
    dataset.update_config({"k": "new"})


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6])
def test_the_same_version_as_by_pylance(tmp_path: Path, version: int) -> None:
    own, committed = str(tmp_path / "ours"), str(tmp_path / "theirs")
    for uri in (own, committed):
        history_of(uri)
    expected = lance_spark.open(own, version=version).to_table(with_row_id=True)
    assert lance_spark.open(own).restore(version).version == 7
    lance.dataset(committed, version=version).restore()
    mine, reference = lance.dataset(own), lance.dataset(committed)
    assert mine.version == reference.version == 7
    assert mine.to_table(with_row_id=True) == reference.to_table(with_row_id=True) == expected
    assert mine.config() == reference.config()
    assert repr(mine.read_transaction(7).operation) == repr(reference.read_transaction(7).operation)
    read, written = lance_spark.open(committed).manifest, lance_spark.open(own).manifest
    assert (written.reader_flags, written.writer_flags) == (read.reader_flags, read.writer_flags)
    assert largest_fragment_id(written) == largest_fragment_id(read)
    assert written.next_row_id == read.next_row_id


def test_ids_given_since_are_not_given_again(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(0), uri, enable_stable_row_ids=True)
    lance_spark.write(rows(1), uri, mode="append")
    lance_spark.open(uri, version=1).restore()
    lance.write_dataset(rows(2), uri, mode="append")
    dataset = lance.dataset(uri)
    assert dataset.to_table(with_row_id=True).to_pydict() == {"a": [0, 2], "_rowid": [0, 2]}
    assert [fragment.fragment_id for fragment in dataset.get_fragments()] == [0, 2]
    assert lance.dataset(uri, version=2).count_rows() == 2


def test_a_branch_is_restored_to_its_own_versions(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0), uri)
    lance.write_dataset(rows(1), uri, mode="append")
    lance.dataset(uri).create_branch("b", 2)
    lance_spark.write(rows(2), uri, mode="append", branch="b")
    branch = lance_spark.open(uri, branch="b")
    with pytest.raises(NotFoundError):
        branch.restore(1)
    restored = branch.restore(2)
    assert (restored.version, restored.manifest.branch) == (4, "b")
    assert lance.dataset(uri).checkout_version(("b", 4)).to_table() == restored.to_table()
    assert lance_spark.open(uri).version == 2


def test_what_is_not_there(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(0), uri)
    with pytest.raises(NotFoundError):
        lance_spark.open(uri).restore(2)
    assert len(lance_spark.open(uri).versions()) == 1


@pytest.mark.parametrize("harm", [Harm.ANSWER_LOST, Harm.NOT_SENT, Harm.SENT_TWICE])
def test_a_lost_reply_makes_one_version(tmp_path: Path, harm: Harm) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(0), uri)
    lance_spark.write(rows(1), uri, mode="overwrite")
    assert restore(with_faults(uri, Fault("put_if_absent", harm)), 1, NO_WAIT).version == 3
    assert lance.dataset(uri).version == 3
    assert lance.dataset(uri).to_table() == rows(0)


def test_a_restore_follows_an_append(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(0), uri)

    def meanwhile() -> None:
        lance.write_dataset(rows(1), uri, mode="append")

    location = with_faults(uri, Fault("put_if_absent", Harm.NONE, run=meanwhile))
    manifest = restore(location, 1, NO_WAIT)
    assert (manifest.version, manifest.max_fragment_id) == (3, 1)
    assert lance.dataset(uri).to_table() == rows(0)


# "ok" commits, "R" is retryable, "X" is incompatible.
EXPECTED = {K.UPDATE_CONFIG: "R", K.UPDATE_MEM_WAL_STATE: "X", K.DATA_OVERLAY: "R", K.UNKNOWN: "R"}


@pytest.mark.parametrize("committed", list(K), ids=lambda kind: kind.value)
def test_cells(committed: K) -> None:
    try:
        check_conflict(ConflictContext(Restore(1), OtherOperation(committed), SCHEMA, SCHEMA, 7))
        verdict = "ok"
    except CommitConflictError as error:
        verdict = {RetryableConflictError: "R", IncompatibleConflictError: "X"}[type(error)]
    assert verdict == EXPECTED.get(committed, "ok")
