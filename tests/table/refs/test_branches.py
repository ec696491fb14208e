"""Branches that we make are the reference library's, and the other way round; of two makers of a name one fails."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lance_spark
from lance_spark._proto import table_pb2, transaction_pb2
from lance_spark.errors import InvalidInputError, NotFoundError, StorageError
from lance_spark.storage.faults import Fault, FaultStore, Harm
from lance_spark.table.commits.commit import RetryPolicy
from lance_spark.table.location import TableLocation
from lance_spark.table.refs.branching import create_branch, delete_branch
from lance_spark.table.refs.refs import Refs
from tests.support.equality import assert_tables_equal
from tests.support.moto import S3Bucket

NO_WAIT = RetryPolicy(max_requests=5, sleep=lambda seconds: None)
PUT = "put_if_absent"


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(*range(10)), uri, max_rows_per_file=4)
    lance.dataset(uri).delete("a = 3")
    return uri


def values(dataset: lance_spark.Dataset | lance.LanceDataset) -> list[int]:
    return sorted(dataset.to_table()["a"].to_pylist())


def reference(uri: str, branch: str) -> lance.LanceDataset:
    return lance.dataset(uri).checkout_version((branch, None))


def described(uri: str, branch: str) -> dict[str, object]:
    name = branch.replace("/", "%2F")
    content = json.loads(Path(uri, "_refs", "branches", f"{name}.json").read_text())
    assert isinstance(content, dict)
    return content


def first_manifest(uri: str, branch: str, version: int) -> tuple[table_pb2.Manifest, transaction_pb2.Transaction]:
    file = TableLocation(uri, branch=branch).history.load(version)
    assert file.transaction is not None
    return file.manifest.to_proto(), transaction_pb2.Transaction.FromString(file.transaction)


def test_pylance_reads_and_writes_our_branch(uri: str) -> None:
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    branch = lance_spark.open(uri).create_branch("team/side")
    assert (branch.branch, branch.version) == ("team/side", 3)
    committed = reference(uri, "team/side")
    committed.validate()
    assert_tables_equal(committed.to_table(), branch.to_table())
    assert committed.to_table(filter="a = 5").num_rows == 1
    committed.delete("a = 5")
    lance.write_dataset(rows(20, 21), committed, mode="append")
    own = lance_spark.open(uri, branch="team/side")
    assert values(own) == [0, 1, 2, 4, 6, 7, 8, 9, 20, 21]
    reference(uri, "team/side").optimize.compact_files()
    assert values(lance_spark.open(uri, branch="team/side")) == values(own)
    assert values(lance_spark.open(uri)) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_we_read_and_write_their_branch(uri: str) -> None:
    lance.dataset(uri).create_branch("b", 1)
    lance_spark.write(rows(30), uri, mode="append", branch="b")
    dataset = lance_spark.open(uri, branch="b").delete("a % 2 = 1")
    committed = reference(uri, "b")
    committed.validate()
    assert_tables_equal(committed.to_table(), dataset.to_table())
    assert values(dataset) == [0, 2, 4, 6, 8, 30]
    assert values(dataset.restore(1)) == list(range(10)) == values(reference(uri, "b"))
    dataset.create_tag("tagged", 2)
    assert values(lance.dataset(uri, version="tagged")) == [*range(10), 30]


@pytest.mark.parametrize("stable", [False, True])
def test_the_manifest_is_that_of_pylance(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path / "t")
    dataset = lance.write_dataset(rows(*range(10)), uri, enable_stable_row_ids=stable)
    dataset.delete("a = 1")
    dataset.create_scalar_index("a", "BTREE")
    lance.dataset(uri).create_branch("theirs")
    lance_spark.open(uri).create_branch("ours")
    lance_spark.open(uri, branch="theirs").delete("a = 2")
    reference(uri, "theirs").create_branch("their/child")
    lance_spark.open(uri, branch="theirs").create_branch("our/child")
    for own, committed, version in (("ours", "theirs", 3), ("our/child", "their/child", 4)):
        (mine, my_transaction), (other, other_transaction) = (
            first_manifest(uri, name, version) for name in (own, committed)
        )
        assert (mine.branch, my_transaction.clone.branch_name) == (own, own)
        for message, transaction in ((mine, my_transaction), (other, other_transaction)):
            for member in ("timestamp", "writer_version", "transaction_file", "branch"):
                message.ClearField(member)  # type: ignore[arg-type]
            message.base_paths.sort(key=lambda base: base.id)
            transaction.uuid = transaction.clone.branch_name = ""
        assert mine == other
        assert my_transaction == other_transaction
        indices = [TableLocation(uri, branch=name).history.load(version).manifest for name in (own, committed)]
        assert indices[0].index_section == indices[1].index_section


def test_the_description_is_that_of_pylance(uri: str) -> None:
    lance.dataset(uri).create_branch("theirs", 1)
    lance_spark.open(uri).create_branch("ours", 1)
    lance_spark.write(rows(5), uri, mode="append", branch="theirs")
    reference(uri, "theirs").create_branch("their/child")
    lance_spark.open(uri, branch="theirs").create_branch("our/child")
    for own, committed in (("ours", "theirs"), ("our/child", "their/child")):
        mine, other = described(uri, own), described(uri, committed)
        assert list(mine) == list(other)
        for content in (mine, other):
            mapping = content["identifier"]["version_mapping"]  # type: ignore[index]
            assert re.fullmatch("[0-9a-f]{32}", mapping[-1].pop())
            assert abs(content.pop("createAt") - lance_spark.open(uri).timestamp.timestamp()) < 60  # type: ignore[operator]
        assert mine == other
    listed = lance.dataset(uri).branches.list()
    assert listed["our/child"]["parent_branch"] == "theirs"
    branch = lance_spark.open(uri).branches()["their/child"]
    assert (branch.parent, branch.parent_version) == ("theirs", 2)
    assert branch.lineage == tuple(map(tuple, listed["their/child"]["branch_identifier"]))
    assert branch.created_at is not None


def test_the_root_of_a_branch_stands_for_it(uri: str) -> None:
    lance.dataset(uri).create_branch("x/y")
    root = f"{uri}/tree/x/y"
    dataset = lance_spark.open(root)
    assert (dataset.branch, dataset.uri) == ("x/y", uri)
    dataset.create_tag("t")
    assert lance_spark.write(rows(20), root, mode="append").branch == "x/y"
    assert lance_spark.open(uri, branch="x/y").version == 3
    assert set(lance_spark.open(root).create_branch("z").branches()) == {"x/y", "z"} == set(dataset.branches())
    assert lance.dataset(uri).tags.list()["t"]["branch"] == "x/y"
    nothing = f"{uri}/tree/nothing"
    assert lance_spark.write(rows(1), nothing).branch is None
    assert values(lance_spark.open(nothing)) == [1]


def test_where_a_branch_begins(uri: str) -> None:
    dataset = lance_spark.open(uri)
    assert dataset.create_branch("now").version == 2
    assert values(dataset.create_branch("then", 1)) == list(range(10))
    lance_spark.write(rows(50), uri, mode="append", branch="then").create_tag("fifty")
    child = lance_spark.open(uri).create_branch("child", tag="fifty")
    assert (child.version, values(child)) == (2, [*range(10), 50])
    assert lance_spark.open(uri).branches()["child"].parent == "then"
    grandchild = child.create_branch("grand/child")
    lance_spark.write(rows(51), uri, mode="append", branch="child")
    assert values(grandchild) == values(reference(uri, "grand/child")) == [*range(10), 50]
    with pytest.raises(InvalidInputError, match="version or a tag"):
        dataset.create_branch("x", 1, tag="fifty")
    for call in (lambda: dataset.create_branch("x", 9), lambda: dataset.create_branch("x", tag="none")):
        with pytest.raises(NotFoundError):
            call()
    assert set(dataset.branches()) == {"now", "then", "child", "grand/child"}


def test_a_branch_goes_on_with_its_row_ids(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(0, 1, 2), uri, enable_stable_row_ids=True).create_branch("b")
    branch = lance_spark.write(rows(3), uri, mode="append", branch="b")
    assert branch.to_table(with_row_id=True)["_rowid"].to_pylist() == [0, 1, 2, 3]
    assert_tables_equal(reference(uri, "b").scanner(with_row_id=True).to_table(), branch.to_table(with_row_id=True))
    assert lance_spark.write(rows(4), uri, mode="append").manifest.next_row_id == 4


@pytest.mark.parametrize(
    "name",
    ["main", "", "/a", "a/", "a//b", "a..b", "a.lock", "a b", "a\\b", ".a", "a/.b", "é", "a/data", "a/_versions"],
)
def test_names_that_a_new_branch_cannot_have(uri: str, name: str) -> None:
    with pytest.raises(InvalidInputError):
        lance_spark.open(uri).create_branch(name)
    assert not Path(uri, "tree").exists()


@pytest.mark.parametrize("name", ["A-_.1", "tree", "main/x", "a/main", "HEAD", "data"])
def test_names_that_a_new_branch_can_have(uri: str, name: str) -> None:
    assert values(lance_spark.open(uri).create_branch(name)) == values(reference(uri, name))


@pytest.mark.parametrize("name", [".a", "a.", "é", "a/.b", "x.lock/b"])
def test_stranger_names_of_pylance_are_read(uri: str, name: str) -> None:
    lance.dataset(uri).create_branch(name)
    assert values(lance_spark.open(uri, branch=name)) == values(reference(uri, name))
    assert list(lance_spark.open(uri).branches()) == [name]


def test_a_branch_that_is_there(uri: str) -> None:
    lance.dataset(uri).create_branch("b")
    before = described(uri, "b")
    with pytest.raises(InvalidInputError, match="already"):
        lance_spark.open(uri).create_branch("b", 1)
    assert described(uri, "b") == before
    assert [entry.version for entry in lance_spark.open(uri, branch="b").versions()] == [2]


@pytest.mark.parametrize("maker", ["ours", "theirs"])
def test_removing(uri: str, maker: str) -> None:
    dataset = lance_spark.open(uri)
    if maker == "ours":
        dataset.create_branch("b")
    else:
        lance.dataset(uri).create_branch("b")
    lance_spark.write(rows(20), uri, mode="append", branch="b").delete("a = 20 or a = 4")
    dataset.create_branch("b/c", 1)
    dataset.delete_branch("b")
    assert set(lance.dataset(uri).branches.list()) == {"b/c"}
    assert [path for path in Path(uri, "tree").rglob("*") if path.is_file() and "/b/c/" not in str(path)] == []
    assert values(dataset) == values(lance_spark.open(uri, branch="b/c").delete("a = 3"))
    assert values(dataset.create_branch("b")) == values(reference(uri, "b"))
    lance.dataset(uri).branches.delete("b/c")
    with pytest.raises(NotFoundError):
        dataset.delete_branch("b/c")
    with pytest.raises(InvalidInputError):
        dataset.delete_branch("main")


@pytest.mark.parametrize("force", [False, True])
def test_what_others_need_is_not_removed(uri: str, force: bool) -> None:
    dataset = lance_spark.open(uri)
    dataset.create_branch("a").create_branch("b").create_branch("c")
    for name, children in (("a", "b, c"), ("b", "c")):
        with pytest.raises(InvalidInputError, match=children):
            dataset.delete_branch(name, force=force)
    lance_spark.open(uri, branch="c").create_tag("t")
    with pytest.raises(InvalidInputError, match="t"):
        dataset.delete_branch("c", force=force)
    dataset.delete_tag("t")
    for name in ("c", "b", "a"):
        dataset.delete_branch(name, force=force)
    assert dataset.branches() == {}


def test_a_branch_of_an_old_release_has_no_lineage(uri: str) -> None:
    dataset = lance_spark.open(uri)
    dataset.create_branch("a")
    path = Path(uri, "_refs", "branches", "a.json")
    content = json.loads(path.read_text())
    del content["identifier"], content["metadata"]
    path.write_text(json.dumps(content))
    assert dataset.branches()["a"].lineage == ()
    child = lance_spark.open(uri, branch="a").create_branch("child")
    assert values(child) == values(reference(uri, "child"))
    with pytest.raises(InvalidInputError, match="child"):
        dataset.delete_branch("a")


@pytest.mark.parametrize(
    "wrong",
    [
        {"identifier": 7},
        {"identifier": {"version_mapping": [[1]]}},
        {"identifier": {"version_mapping": [["1", "x"]]}},
        {"createAt": "now"},
        {"createAt": 1 << 60},
        {"parentVersion": 0},
    ],
)
def test_damaged_descriptions(uri: str, wrong: dict[str, object]) -> None:
    lance_spark.open(uri).create_branch("b")
    path = Path(uri, "_refs", "branches", "b.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | wrong))
    with pytest.raises(lance_spark.CorruptFileError):
        lance_spark.open(uri, branch="b")


def with_faults(uri: str, *faults: Fault) -> TableLocation:
    location = TableLocation(uri)
    location.refs = Refs(FaultStore(location.refs.store, faults))
    return location


@pytest.mark.parametrize("harm", [Harm.ANSWER_LOST, Harm.NOT_SENT, Harm.SENT_TWICE])
def test_a_lost_reply_makes_one_branch(uri: str, harm: Harm) -> None:
    create_branch(with_faults(uri, Fault(PUT, harm, path_part="_refs/")), "b", 1, NO_WAIT)
    assert values(lance_spark.open(uri, branch="b")) == list(range(10))


def test_a_store_that_never_answers(uri: str) -> None:
    with pytest.raises(StorageError, match="did not say"):
        create_branch(with_faults(uri, Fault(PUT, Harm.NOT_SENT, times=100)), "b", 1, NO_WAIT)


def crash() -> None:
    raise KeyboardInterrupt


def test_a_crash_between_clone_and_description_leaves_no_branch(uri: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        create_branch(with_faults(uri, Fault(PUT, Harm.NONE, run=crash)), "b", 1, NO_WAIT)
    dataset = lance_spark.open(uri)
    assert dataset.branches() == {} == lance.dataset(uri).branches.list()
    with pytest.raises(NotFoundError):
        lance_spark.open(uri, branch="b")
    with pytest.raises(InvalidInputError, match="not complete"):
        dataset.create_branch("b")
    with pytest.raises(NotFoundError):
        dataset.delete_branch("b")
    dataset.delete_branch("b", force=True)
    assert values(dataset.create_branch("b")) == values(reference(uri, "b"))


@pytest.mark.parametrize("version", [1, 2])
def test_of_two_makers_one_fails(uri: str, version: int) -> None:
    def meanwhile() -> None:
        with pytest.raises(InvalidInputError, match="not complete"):
            lance_spark.open(uri).create_branch("b", version)

    create_branch(with_faults(uri, Fault(PUT, Harm.NONE, path_part="_refs/", run=meanwhile)), "b", 1, NO_WAIT)
    (entry,) = lance_spark.open(uri, branch="b").versions()
    assert entry.version == described(uri, "b")["parentVersion"] == 1


@pytest.mark.parametrize("version", [1, 2])
def test_pylance_makes_the_same_branch_meanwhile(uri: str, version: int) -> None:
    def meanwhile() -> None:
        with pytest.raises(OSError, match=r"Dataset|Clone"):
            lance.dataset(uri).create_branch("b", version)

    create_branch(with_faults(uri, Fault(PUT, Harm.NONE, path_part="_refs/", run=meanwhile)), "b", 1, NO_WAIT)
    assert values(lance_spark.open(uri, branch="b")) == values(reference(uri, "b")) == list(range(10))
    assert [entry.version for entry in lance_spark.open(uri, branch="b").versions()] == [1]


def racing(uri: str, operation: str, run: Callable[[], None], part: str = "") -> TableLocation:
    return with_faults(uri, Fault(operation, Harm.NONE, path_part=part, run=run))


def test_a_parent_that_is_removed_meanwhile(uri: str) -> None:
    lance_spark.open(uri).create_branch("parent")
    location = TableLocation(uri, branch="parent")
    faulty = racing(uri, PUT, lambda: lance_spark.open(uri).delete_branch("parent"), "_refs/")
    location.refs = faulty.refs
    with pytest.raises(NotFoundError):
        create_branch(location, "child", 2, NO_WAIT)
    assert lance_spark.open(uri).branches() == {}
    assert list(Path(uri, "tree").rglob("*.manifest")) == []


def test_a_child_that_comes_meanwhile(uri: str) -> None:
    lance_spark.open(uri).create_branch("parent")

    def meanwhile() -> None:
        lance_spark.open(uri, branch="parent").create_branch("child")

    with pytest.raises(InvalidInputError, match="child"):
        delete_branch(racing(uri, "delete", meanwhile), "parent")
    assert values(lance_spark.open(uri, branch="child")) == values(lance_spark.open(uri, branch="parent"))


def test_branches_in_memory() -> None:
    uri = f"memory://branches-{uuid.uuid4().hex}/t"
    lance_spark.write(rows(1, 2), uri)
    branch = lance_spark.open(uri).create_branch("a/b")
    assert branch.manifest.base_paths[0].path == uri
    lance_spark.write(rows(3), uri, mode="append", branch="a/b").delete("a = 1")
    assert values(lance_spark.open(uri, branch="a/b")) == [2, 3]
    lance_spark.open(uri).delete_branch("a/b")
    assert values(lance_spark.open(uri)) == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("maker", ["ours", "theirs"])
def test_branches_in_s3(s3_bucket: S3Bucket, maker: str) -> None:
    uri, options = s3_bucket.folder(), s3_bucket.storage_options
    lance_spark.write(rows(1, 2, 3), uri, storage_options=options)
    if maker == "ours":
        lance_spark.open(uri, storage_options=options).create_branch("a/b")
    else:
        lance.dataset(uri, storage_options=options).create_branch("a/b")
    branch = lance_spark.open(uri, branch="a/b", storage_options=options)
    assert branch.manifest.base_paths[0].path == uri
    branch.delete("a = 2")
    lance_spark.write(rows(4), uri, mode="append", branch="a/b", storage_options=options)
    committed = lance.dataset(uri, storage_options=options).checkout_version(("a/b", None))
    assert values(committed) == [1, 3, 4]
    committed.create_branch("c")
    branch = lance_spark.open(uri, branch="c", storage_options=options).delete("a = 4")
    assert values(branch) == [1, 3]
    assert sorted(pa.Table.from_batches(branch.changes(4))["a"].to_pylist()) == [4]
    with pytest.raises(InvalidInputError, match="c"):
        branch.delete_branch("a/b")
    branch.delete_branch("c")
    branch.delete_branch("a/b")
    assert lance.dataset(uri, storage_options=options).branches.list() == {}
    assert values(lance_spark.open(uri, storage_options=options)) == [1, 2, 3]


@pytest.mark.slow
def test_branches_of_a_table_whose_versions_are_in_dynamodb(s3_bucket: S3Bucket) -> None:
    place = s3_bucket.folder().removeprefix("s3://")
    uri = f"s3+ddb://{place}?ddbTableName={s3_bucket.manifest_table()}"
    options = {**s3_bucket.storage_options, "dynamodb_endpoint": s3_bucket.endpoint}
    lance_spark.write(rows(1, 2, 3), uri, storage_options=options)
    dataset = lance_spark.open(uri, storage_options=options)
    branch = dataset.create_branch("b").delete("a = 2")
    assert branch.manifest.base_paths[0].path == f"s3://{place}"
    assert values(lance_spark.open(uri, branch="b", storage_options=options)) == [1, 3]
    dataset.delete_branch("b")
    assert dataset.branches() == {}
    assert values(dataset.create_branch("b", 1)) == [1, 2, 3]


STEPS = st.lists(
    st.tuples(st.sampled_from(["branch", "append", "delete", "compact"]), st.booleans(), st.integers(0, 30)),
    min_size=1,
    max_size=10,
)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(stable=st.booleans(), steps=STEPS)
def test_branches_of_branches_written_by_both(
    tmp_path_factory: pytest.TempPathFactory, stable: bool, steps: list[tuple[str, bool, int]]
) -> None:
    uri = str(tmp_path_factory.mktemp("branches") / "t")
    lance_spark.write(rows(*range(8)), uri, max_rows_per_file=3, enable_stable_row_ids=stable)
    expected: dict[str, list[int]] = {"main": list(range(8))}
    for what, by_us, number in steps:
        name = sorted(expected)[number % len(expected)]
        own, committed = lance_spark.open(uri, branch=name), reference(uri, name)
        if what == "branch":
            new = f"b{len(expected)}"
            own.create_branch(new) if by_us else committed.create_branch(new, (name, None))
            expected[new] = list(expected[name])
        elif what == "append":
            expected[name].append(100 + number)
            table = rows(100 + number)
            if by_us:
                lance_spark.write(table, uri, mode="append", branch=name)
            else:
                lance.write_dataset(table, committed, mode="append")
        elif what == "delete":
            expected[name] = [value for value in expected[name] if value % 5 != number % 5]
            (own if by_us else committed).delete(f"a % 5 = {number % 5}")
        else:
            own.compact() if by_us else committed.optimize.compact_files()
    for name, content in expected.items():
        assert values(lance_spark.open(uri, branch=name)) == values(reference(uri, name)) == sorted(content)
    assert set(lance_spark.open(uri).branches()) == expected.keys() - {"main"}
