"""Shallow clones and base paths: both libraries read and write what the other has cloned; base ids stay right."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import DatasetBasePath

import lance_spark
from lance_spark._proto import transaction_pb2
from lance_spark.errors import CommitConflictError, IncompatibleConflictError, InvalidInputError, NotFoundError
from lance_spark.storage.faults import Fault, FaultStore, Harm
from lance_spark.table.base_places import base_path_of
from lance_spark.table.bases import BasePath
from lance_spark.table.commits.commit import RetryPolicy
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.history import History
from lance_spark.table.operations.base import OperationKind
from lance_spark.table.operations.clone import Clone, free_base_id
from lance_spark.table.operations.update_bases import UpdateBases
from lance_spark.table.refs.clone import shallow_clone
from lance_spark.table.rows.fragment import BaseId
from tests.support.equality import assert_tables_equal
from tests.support.moto import S3Bucket
from tests.support.table.conflicts import MEASURED, in_between

NO_WAIT = RetryPolicy(max_requests=5, sleep=lambda seconds: None)


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


def values(dataset: Any) -> list[int]:
    return sorted(dataset.to_table()["a"].to_pylist())


@pytest.fixture(params=[False, True], ids=["addresses", "stable ids"])
def uri(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(*range(10)), uri, max_rows_per_file=4, enable_stable_row_ids=request.param)
    lance.dataset(uri).delete("a = 3")
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    return uri


def test_the_manifest_is_that_of_pylance(uri: str, tmp_path: Path) -> None:
    own, committed = str(tmp_path / "ours"), str(tmp_path / "theirs")
    lance_spark.open(uri).shallow_clone(own)
    lance.dataset(uri).shallow_clone(committed, 3)
    lance_spark.open(committed).delete("a = 4")
    lance.dataset(own).delete("a = 4")
    again = (str(tmp_path / "ours again"), str(tmp_path / "theirs again"))
    lance_spark.open(committed).shallow_clone(again[0])
    lance.dataset(committed).shallow_clone(again[1], 4)
    for mine, other, version in ((own, committed, 3), (*again, 4)):
        files = [TableLocation(place).history.load(version) for place in (mine, other)]
        manifests = [file.manifest.to_proto() for file in files]
        transactions = [transaction_pb2.Transaction.FromString(file.transaction or b"") for file in files]
        for manifest, transaction in zip(manifests, transactions, strict=True):
            for member in ("timestamp", "writer_version", "transaction_file"):
                manifest.ClearField(member)  # type: ignore[arg-type]
            manifest.base_paths.sort(key=lambda base: base.id)
            transaction.uuid = ""
        assert manifests[0] == manifests[1]
        assert transactions[0] == transactions[1]
        assert files[0].manifest.index_section == files[1].manifest.index_section


def test_a_clone_lives_on(uri: str, tmp_path: Path) -> None:
    place = str(tmp_path / "clone")
    clone = lance_spark.open(uri).shallow_clone(place, 2)
    assert (clone.version, clone.uri, clone.branch) == (2, place, None)
    before = values(clone)
    clone = clone.delete("a = 4 or a = 9")
    for fragment in clone.fragments:
        deletion = fragment.deletion_file
        if deletion is not None and deletion.read_version == 2:
            assert deletion.base_id is None
            assert Path(place, deletion.path(fragment.id)).exists()
        assert all(file.base_id == 0 for file in fragment.files)
    committed = lance.dataset(place)
    committed.validate()
    assert values(committed) == values(clone) == [0, 1, 2, 5, 6, 7, 8]
    committed.delete("a = 5")
    lance.write_dataset(rows(20), place, mode="append")
    clone = lance_spark.write(rows(21), place, mode="append").delete("a in (6, 20)")
    assert values(clone) == values(lance.dataset(place)) == [0, 1, 2, 7, 8, 21]
    assert [[file.base_id for file in fragment.files] for fragment in clone.fragments][-1] == [None]
    clone.create_tag("now")
    clone = clone.update({"a": "a + 100"}, "a = 0").compact()
    assert values(clone) == values(lance.dataset(place)) == [1, 2, 7, 8, 21, 100]
    assert all(file.base_id is None for fragment in clone.fragments for file in fragment.files)
    assert values(lance_spark.open(place, tag="now")) == [0, 1, 2, 7, 8, 21]
    restored = clone.restore(2)
    assert values(restored) == values(lance.dataset(place)) == before
    lance.dataset(place).optimize.compact_files()
    assert values(lance_spark.open(place)) == before
    assert values(lance_spark.write(rows(5), place, mode="overwrite")) == values(lance.dataset(place)) == [5]
    assert values(lance_spark.open(uri)) == before


def test_columns_and_merges_on_a_clone(uri: str, tmp_path: Path) -> None:
    place = str(tmp_path / "clone")
    clone = lance_spark.open(uri).shallow_clone(place)
    clone = clone.add_columns({"b": "a * 2"}).add_columns(pa.field("c", pa.string()))
    assert {file.base_id for fragment in clone.fragments for file in fragment.files} == {0, None}
    clone = clone.merge(pa.table({"a": pa.array([4, 50], pa.int64()), "b": [0, 1], "c": ["x", "y"]}), "a")
    clone = clone.rename_columns({"b": "twice"}).delete("twice = 4")
    committed = lance.dataset(place)
    committed.validate()
    expected = {0: (0, None), 1: (2, None), 4: (0, "x"), 50: (1, "y")} | {n: (2 * n, None) for n in range(5, 10)}
    for dataset in (clone, committed):
        found = {row["a"]: (row["twice"], row["c"]) for row in dataset.to_table().to_pylist()}
        assert found == expected
    committed.drop_columns(["twice"])
    lance.dataset(place).merge_insert("a").when_matched_update_all().execute(
        pa.table({"a": pa.array([5], pa.int64()), "c": ["z"]})
    )
    clone = lance_spark.open(place).drop_columns(["a"])
    assert sorted(map(str, clone.to_table()["c"].to_pylist())) == sorted(["None"] * 6 + ["x", "y", "z"])
    assert lance.dataset(place).count_rows() == 9


def test_a_clone_of_a_branch_of_a_clone(uri: str, tmp_path: Path) -> None:
    first = lance_spark.open(uri).shallow_clone(str(tmp_path / "1"))
    branch = first.create_branch("b").delete("a = 0")
    branch = lance_spark.write(rows(30), first.uri, mode="append", branch="b")
    second = branch.shallow_clone(str(tmp_path / "2"))
    assert [(base.id, base.name) for base in second.manifest.base_paths] == [(0, None), (1, None), (2, "b")]
    second = second.delete("a = 1").create_branch("c").delete("a = 30")
    found = lance.dataset(second.uri).checkout_version(("c", None))
    found.validate()
    assert values(found) == values(second) == [2, 4, 5, 6, 7, 8, 9]
    assert found.to_table(filter="a = 7").num_rows == 1
    assert_tables_equal(found.to_table(), second.to_table())


def test_where_there_is_a_table(uri: str, tmp_path: Path) -> None:
    place = str(tmp_path / "other")
    lance_spark.write(rows(1), place)
    with pytest.raises(InvalidInputError, match="already"):
        lance_spark.open(uri).shallow_clone(place)
    with pytest.raises(InvalidInputError, match="already"):
        lance_spark.open(uri).shallow_clone(uri)
    with pytest.raises(NotFoundError):
        lance_spark.open(uri).shallow_clone(str(tmp_path / "new"), 9)
    assert values(lance_spark.open(place)) == [1]


def target(tmp_path: Path, *faults: Fault) -> TableLocation:
    location = TableLocation(str(tmp_path / "clone"))
    location.store = FaultStore(location.store, faults)
    location.history = History(location.store)
    return location


@pytest.mark.parametrize("harm", [Harm.ANSWER_LOST, Harm.NOT_SENT, Harm.SENT_TWICE])
def test_a_lost_reply(uri: str, tmp_path: Path, harm: Harm) -> None:
    made = shallow_clone(TableLocation(uri), 2, target(tmp_path, Fault("put_if_absent", harm)), NO_WAIT)
    assert made.version == 2
    assert values(lance_spark.open(str(tmp_path / "clone"))) == values(lance_spark.open(uri))


@pytest.mark.parametrize("maker", ["a clone", "a table"])
def test_a_table_that_is_made_meanwhile(uri: str, tmp_path: Path, maker: str) -> None:
    place = str(tmp_path / "clone")

    def meanwhile() -> None:
        if maker == "a clone":
            lance_spark.open(uri).shallow_clone(place, 2)
        else:
            for value in range(3):
                lance_spark.write(rows(value), place, mode="append")

    location = target(tmp_path, Fault("put_if_absent", Harm.NONE, run=meanwhile))
    with pytest.raises(CommitConflictError):
        shallow_clone(TableLocation(uri), 2, location, NO_WAIT)
    assert values(lance_spark.open(place)) == ([0, 1, 2] if maker == "a table" else [0, 1, 2, 4, 5, 6, 7, 8, 9])


def test_between_stores(tmp_path: Path) -> None:
    uri, place = f"memory://source-{uuid.uuid4().hex}/t", str(tmp_path / "clone")
    lance_spark.write(rows(1, 2, 3), uri)
    clone = lance_spark.open(uri).shallow_clone(place).delete("a = 2")
    assert clone.manifest.base_paths[0].path == uri
    assert values(lance_spark.write(rows(4), place, mode="append")) == [1, 3, 4]


@pytest.mark.slow
def test_a_base_with_storage_options_of_its_own(s3_bucket: S3Bucket, tmp_path: Path) -> None:
    uri, options = s3_bucket.folder(), s3_bucket.storage_options
    lance_spark.write(rows(1, 2, 3), uri, storage_options=options)
    place = str(tmp_path / "clone")
    own = {f"base_0.{key}": value for key, value in options.items()}
    lance_spark.open(uri, storage_options=options).shallow_clone(place, storage_options={})
    clone = lance_spark.open(place, storage_options=own).delete("a = 2")
    assert values(clone) == values(lance.dataset(place, storage_options=own)) == [1, 3]
    assert values(clone.create_branch("b")) == [1, 3]


def test_a_relative_path_is_cloned_as_an_absolute_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lance_spark.write(rows(1), "t")
    clone = lance_spark.open("t").shallow_clone("clone")
    assert clone.manifest.base_paths[0].path == str(tmp_path / "t") == base_path_of("t")
    monkeypatch.chdir("/")
    assert values(lance.dataset(str(tmp_path / "clone"))) == [1]


def test_a_table_that_cannot_be_cloned(uri: str, tmp_path: Path) -> None:
    fragments = lance.fragment.write_fragments(rows(9), uri, mode="append")
    detached = lance.LanceDataset.commit(uri, lance.LanceOperation.Append(fragments), read_version=3, detached=True)
    with pytest.raises(InvalidInputError, match="detached"):
        lance_spark.open(uri, version=detached.version).shallow_clone(str(tmp_path / "clone"))


def base(path: str, name: str | None = None, number: int = 0, root: bool = False) -> BasePath:
    return BasePath(BaseId(number), path, root, name)


def test_pylance_writes_to_bases_that_we_added(uri: str, tmp_path: Path) -> None:
    (tmp_path / "flat").mkdir()
    (tmp_path / "root").mkdir()
    dataset = lance_spark.open(uri).add_bases(
        [base(str(tmp_path / "flat"), "flat"), base(str(tmp_path / "root"), "root", root=True)]
    )
    assert [(entry.id, entry.name) for entry in dataset.manifest.base_paths] == [(1, "flat"), (2, "root")]
    assert {number: (entry.name, entry.path) for number, entry in lance.dataset(uri).base_paths().items()} == {
        1: ("flat", str(tmp_path / "flat")),
        2: ("root", str(tmp_path / "root")),
    }
    for name, value in (("flat", 20), ("root", 30)):
        lance.write_dataset(rows(value), uri, mode="append", target_bases=[name])
    assert len(list((tmp_path / "flat").glob("*.lance"))) == len(list((tmp_path / "root").glob("data/*.lance"))) == 1
    found = lance_spark.open(uri)
    assert values(found) == values(lance.dataset(uri))
    assert {20, 30} <= set(values(found))
    assert values(found.delete("a = 20")) == values(lance.dataset(uri))
    clone = found.shallow_clone(str(tmp_path / "clone"))
    assert {entry.id for entry in clone.manifest.base_paths} == {0, 1, 2}
    assert values(clone) == values(lance.dataset(clone.uri)) == values(found)
    assert values(lance_spark.open(uri).compact()) == values(lance.dataset(uri)) == values(found.delete("a = 20"))


def files_of(dataset: lance_spark.Dataset) -> list[int | None]:
    return [file.base_id for fragment in dataset.fragments for file in fragment.files]


def test_we_write_to_bases(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    bases = [
        lance_spark.BasePath.at(str(tmp_path / "flat"), "flat"),
        base(str(tmp_path / "root"), "root", 7, root=True),
    ]
    made = lance_spark.write(
        rows(*range(6)), uri, max_rows_per_file=2, initial_bases=bases, target_bases=["flat", "root"]
    )
    assert files_of(made) == [1, 7, 1]
    assert len(list((tmp_path / "flat").glob("*.lance"))) == 2
    assert len(list((tmp_path / "root" / "data").glob("*.lance"))) == 1
    assert not (tmp_path / "t" / "data").exists()
    committed = lance.dataset(uri)
    committed.validate()
    assert values(committed) == list(range(6))
    lance_spark.write(rows(6), uri, mode="append")
    found = lance_spark.write(rows(7), uri, mode="append", target_bases=["root"])
    assert files_of(found) == [1, 7, 1, None, 7]
    found = found.delete("a in (0, 3, 7)")
    assert values(found) == values(lance.dataset(uri)) == [1, 2, 4, 5, 6]
    found = lance_spark.write(rows(8), uri, mode="overwrite", target_bases=["flat"])
    assert (values(found), values(lance.dataset(uri)), files_of(found)) == ([8], [8], [1])
    for call in (
        lambda: lance_spark.write(rows(9), uri, mode="append", target_bases=["none"]),
        lambda: lance_spark.write(rows(9), str(tmp_path / "new"), target_bases=["flat"]),
    ):
        with pytest.raises(NotFoundError, match="no base is called"):
            call()
    with pytest.raises(InvalidInputError, match="add_bases"):
        lance_spark.write(rows(9), uri, mode="append", initial_bases=bases)
    with pytest.raises(InvalidInputError, match="two bases"):
        lance_spark.write(rows(9), str(tmp_path / "new"), initial_bases=[*bases, base("/x", "flat")])


def test_a_failed_write_leaves_nothing_in_bases(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(0), uri).add_bases([base(str(tmp_path / "flat"), "flat")])

    def batches() -> Iterator[pa.RecordBatch]:
        yield from rows(*range(10)).to_batches()
        raise RuntimeError("the source failed")

    schema = rows(0).schema
    with pytest.raises(RuntimeError):
        lance_spark.write(batches(), uri, mode="append", schema=schema, max_rows_per_file=3, target_bases=["flat"])

    def rival() -> Iterator[pa.RecordBatch]:
        lance_spark.write(pa.table({"other": [1]}), uri, mode="overwrite")
        yield from rows(1).to_batches()

    with pytest.raises(CommitConflictError):
        lance_spark.write(rival(), uri, mode="append", schema=schema, target_bases=["flat"])
    assert list((tmp_path / "flat").iterdir()) == []


def test_a_base_that_a_restore_took_away(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(0), uri).add_bases([base(str(tmp_path / "flat"), "flat")])

    def rival() -> Iterator[pa.RecordBatch]:
        lance_spark.open(uri).restore(1).add_bases([base(str(tmp_path / "other"), "other")])
        yield from rows(1).to_batches()

    with pytest.raises(IncompatibleConflictError, match="taken away"):
        lance_spark.write(rival(), uri, mode="overwrite", schema=rows(0).schema, target_bases=["flat"])
    assert values(lance_spark.open(uri)) == values(lance.dataset(uri)) == [0]


@pytest.mark.parametrize(
    "wrong",
    [
        base("/b"),
        base("/b/"),
        base("/c", "named"),
        base("/c", number=1),
        base("relative"),
    ],
)
def test_bases_that_clash(uri: str, wrong: BasePath) -> None:
    dataset = lance_spark.open(uri).add_bases([base("/b", "named")])
    with pytest.raises(InvalidInputError):
        dataset.add_bases([wrong])
    with pytest.raises(InvalidInputError):
        dataset.add_bases([])
    assert lance_spark.open(uri).version == dataset.version


def test_bases_that_are_added_at_the_same_time(uri: str) -> None:
    stale = lance_spark.open(uri)
    lance.dataset(uri).add_bases([DatasetBasePath("/theirs", "theirs")])
    made = stale.add_bases([base("/ours", "ours")])
    assert [(entry.id, entry.name) for entry in made.manifest.base_paths] == [(1, "theirs"), (2, "ours")]
    for wrong in (base("/x", "theirs"), base("/ours/", "y")):
        with pytest.raises(IncompatibleConflictError):
            stale.add_bases([wrong])
    stale.delete("a = 1")
    assert values(lance_spark.write(rows(40), uri, mode="append")) == values(lance.dataset(uri))


@pytest.mark.parametrize("committed", MEASURED, ids=lambda kind: kind.value)
def test_bases_follow_whatever_was_committed(tmp_path: Path, committed: OperationKind) -> None:
    # The reference library judges so too.
    uri = str(tmp_path / "t")
    table = pa.table({"a": pa.array(range(5), pa.int64()), "b": pa.array(range(5), pa.int64())})
    for _ in range(2):
        lance.write_dataset(table, uri, mode="append")
    own, reference = lance_spark.open(uri), lance.dataset(uri)
    in_between(uri)[committed]()
    expected = values(lance.dataset(uri))
    reference.add_bases([DatasetBasePath("/theirs", "theirs")])
    own = own.add_bases([base("/ours", "ours")])
    assert [(entry.id, entry.name) for entry in own.manifest.base_paths] == [(1, "theirs"), (2, "ours")]
    assert values(own) == values(lance.dataset(uri)) == expected


def test_free_ids() -> None:
    assert free_base_id([]) == 0
    assert free_base_id([0, 1, 3]) == 2
    assert free_base_id([0, 1, 3], first=1) == 2
    assert free_base_id([17], first=1) == 1


def test_messages_come_back() -> None:
    clone = Clone(True, "b", 7, "/t/tree/b", "c")
    assert Clone.from_proto(clone.to_proto()) == clone
    assert Clone.from_proto(Clone(True, None, 7, "/t").to_proto()) == Clone(True, None, 7, "/t")
    bases = UpdateBases((base("/a", "n", 3, True), base("/b")))
    assert UpdateBases.from_proto(bases.to_proto()) == bases
