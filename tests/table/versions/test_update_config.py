"""Config and table metadata change as the reference library changes them; two writers of one key collide."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark._proto import transaction_pb2
from lance_spark.errors import CommitConflictError, IncompatibleConflictError, InvalidInputError, RetryableConflictError
from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.storage.faults import Fault, FaultStore, Harm
from lance_spark.table.commits.commit import RetryPolicy
from lance_spark.table.commits.conflict_rules import ConflictContext
from lance_spark.table.commits.conflicts import check_conflict
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.features import FeatureFlag
from lance_spark.table.manifests.history import History
from lance_spark.table.operations.base import Operation, OtherOperation
from lance_spark.table.operations.base import OperationKind as K
from lance_spark.table.operations.overwrite import Overwrite
from lance_spark.table.operations.restore import Restore
from lance_spark.table.operations.update_config import UpdateConfig
from lance_spark.table.operations.update_map import UpdateMap
from lance_spark.table.versions.changes import update_config

NO_WAIT = RetryPolicy(sleep=lambda seconds: None)
SCHEMA = from_arrow_schema(pa.schema([("a", pa.int64())]))


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(0), uri)
    return uri


STEPS: list[dict[str, str | None]] = [{"k": "1"}, {"k": "2", "j": "ä"}, {"k": None}, {"none": None}, {}, {"j": None}]


@pytest.mark.parametrize("what", ["config", "metadata"])
def test_each_step_is_as_by_pylance(tmp_path: Path, what: str) -> None:
    own, committed = str(tmp_path / "ours"), str(tmp_path / "theirs")
    for uri in (own, committed):
        lance.write_dataset(rows(0), uri, enable_stable_row_ids=True)
    for step in STEPS:
        dataset = getattr(lance_spark.open(own), f"update_{what}")(step)
        getattr(lance.dataset(committed), f"update_{what}")(step)
        mine, reference = lance.dataset(own), lance.dataset(committed)
        assert mine.version == reference.version == dataset.version
        assert mine.config() == reference.config() == dict(dataset.config)
        assert mine.metadata == reference.metadata == dict(dataset.metadata)
        operations = [table.read_transaction(table.version).operation for table in (mine, reference)]
        assert operations[0] == operations[1]
        read = lance_spark.open(committed).manifest
        assert (dataset.manifest.reader_flags, dataset.manifest.writer_flags) == (read.reader_flags, read.writer_flags)
    assert lance.dataset(own).to_table(with_row_id=True) == lance.dataset(committed).to_table(with_row_id=True)
    assert not lance_spark.open(own).manifest.writer_flags & FeatureFlag.TABLE_CONFIG


def test_config_sets_its_flag_for_writers_alone(uri: str) -> None:
    manifest = lance_spark.open(uri).update_config({"k": "v"}).manifest
    assert (manifest.reader_flags & 8, manifest.writer_flags & 8) == (0, 8)
    lance.write_dataset(rows(1), uri, mode="append")
    assert lance.dataset(uri).config() == {"k": "v"}


@pytest.mark.parametrize("entries", [{"k": 1}, {1: "v"}, {"k": b"v"}])
def test_only_text_is_an_entry(uri: str, entries: dict[str, str | None]) -> None:
    with pytest.raises(InvalidInputError):
        lance_spark.open(uri).update_config(entries)
    assert lance_spark.open(uri).version == 1


@pytest.mark.parametrize(
    "committed",
    [
        lambda dataset: dataset.update_config({"k": "theirs"}),
        lambda dataset: dataset.update_config({"k": None}),
        lambda dataset: dataset.update_config({"other": "v"}),
        lambda dataset: dataset.update_metadata({"k": "v"}),
        lambda dataset: dataset.update_schema_metadata({"k": "v"}),
        lambda dataset: dataset.update_field_metadata({"a": {"k": "v"}}),
        lambda dataset: dataset.delete("a = 0"),
        lambda dataset: lance.write_dataset(rows(5), dataset.uri, mode="overwrite"),
        lambda dataset: lance.dataset(dataset.uri, version=1).restore(),
    ],
)
def test_pylance_judges_the_same(tmp_path: Path, committed: Callable[[lance.LanceDataset], object]) -> None:
    results = []
    for own in (False, True):
        uri = str(tmp_path / f"{own}")
        lance.write_dataset(rows(0), uri)
        stale = lance_spark.open(uri) if own else lance.dataset(uri)
        committed(lance.dataset(uri))
        try:
            stale.update_config({"k": "mine"})
            verdict = "ok"
        except IncompatibleConflictError:
            verdict = "X"
        except OSError as error:
            verdict = "X" if "Incompatible" in str(error) else str(error)
        newest = lance.dataset(uri)
        results.append((verdict, newest.version, newest.config(), newest.metadata, newest.to_table()))
    assert results[0] == results[1]


@pytest.mark.parametrize("harm", [Harm.ANSWER_LOST, Harm.NOT_SENT, Harm.SENT_TWICE])
def test_a_lost_reply_makes_one_version(uri: str, harm: Harm) -> None:
    location = TableLocation(uri)
    location.store = FaultStore(location.store, [Fault("put_if_absent", harm)])
    location.history = History(location.store)
    base = lance_spark.open(uri).manifest
    assert update_config(location, base, {"k": "v"}, NO_WAIT).version == 2
    assert lance.dataset(uri).version == 2


def of(**entries: str | None) -> UpdateConfig:
    return UpdateConfig(config=UpdateMap(entries))


def judge(own: Operation, committed: Operation) -> str:
    try:
        check_conflict(ConflictContext(own, committed, SCHEMA, SCHEMA, 7))
    except CommitConflictError as error:
        return {RetryableConflictError: "R", IncompatibleConflictError: "X"}[type(error)]
    return "ok"


# "ok" commits, "R" is retryable, "X" is incompatible.
EXPECTED = {K.OVERWRITE: "R", K.UPDATE_CONFIG: "R", K.UPDATE_MEM_WAL_STATE: "X", K.DATA_OVERLAY: "R", K.UNKNOWN: "R"}


@pytest.mark.parametrize("committed", list(K), ids=lambda kind: kind.value)
def test_cells_of_operations_that_are_not_looked_into(committed: K) -> None:
    assert judge(of(k="v"), OtherOperation(committed)) == EXPECTED.get(committed, "ok")


def test_cells_that_depend_on_keys() -> None:
    assert judge(of(k="v"), Overwrite((), SCHEMA)) == "ok"
    assert judge(of(k="v"), Overwrite((), SCHEMA, {"j": "v"})) == "ok"
    assert judge(of(k="v"), Overwrite((), SCHEMA, {"k": "v"})) == "X"
    assert judge(of(k="v"), of(j="v")) == "ok"
    assert judge(of(k="v"), of(k=None)) == "X"
    assert judge(of(k="v"), UpdateConfig(table_metadata=UpdateMap({"k": "v"}))) == "ok"
    # Stricter than the reference library, to which a replacement that names other keys is no change of ours.
    assert judge(of(k="v"), UpdateConfig(config=UpdateMap({"j": "v"}, replace=True))) == "X"
    assert judge(Restore(1), of(k="v")) == "ok"
    assert judge(Restore(1), UpdateConfig(schema_metadata=UpdateMap({"k": "v"}))) == "X"


def test_what_old_releases_write_is_read() -> None:
    message = transaction_pb2.Transaction.UpdateConfig(upsert_values={"a": "1"}, delete_keys=["b"])
    operation = UpdateConfig.from_proto(message)
    assert operation.config is not None
    assert dict(operation.config.entries) == {"a": "1", "b": None}
    assert not operation.changes_schema
    message = transaction_pb2.Transaction.UpdateConfig(schema_metadata={"a": "1"})
    assert UpdateConfig.from_proto(message).changes_schema


def test_update_config_keeps_what_other_writers_have_set(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": [1]}), uri)
    theirs = {"lance.newer.feature": "1", "lance.auto_cleanup.delete_rate_limit": "5", "lance.blob.managed": "false"}
    lance.dataset(uri).update_config(theirs)
    made = lance_spark.write(pa.table({"a": [2]}), uri, mode="append").update_config({"lance.newer.feature": "2"})
    made = made.update_config({"lance.blob.managed": None, "lance.never": None})
    assert lance.dataset(uri).config() == {"lance.newer.feature": "2", "lance.auto_cleanup.delete_rate_limit": "5"}
    assert made.update_config({"lance.newer.feature": None}).config.keys() == {"lance.auto_cleanup.delete_rate_limit"}
