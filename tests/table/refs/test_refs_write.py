"""Tags that we make are the reference library's, and the other way round; a lost reply makes no difference."""

from __future__ import annotations

import json
import re
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, NotFoundError, StorageError
from lance_spark.storage.faults import Fault, FaultStore, Harm
from lance_spark.table.cleanup.references import GUARD_PREFIX
from lance_spark.table.commits.commit import RetryPolicy
from lance_spark.table.location import TableLocation
from lance_spark.table.refs.refs import Refs, Tag
from lance_spark.table.refs.tagging import create_tag

NO_WAIT = RetryPolicy(max_requests=5, sleep=lambda seconds: None)
PUT = "put_if_absent"


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(0), uri)
    lance_spark.write(rows(1), uri, mode="append")
    return uri


def with_faults(uri: str, *faults: Fault) -> TableLocation:
    location = TableLocation(uri)
    location.refs = Refs(FaultStore(location.refs.store, faults))
    return location


def tag_file(uri: str, name: str) -> str:
    return Path(uri, "_refs", "tags", f"{name}.json").read_text()


def test_pylance_opens_our_tag(uri: str) -> None:
    dataset = lance_spark.open(uri)
    assert dataset.create_tag("old", 1).version == 1
    assert dataset.create_tag("new").version == 2
    listed = lance.dataset(uri).tags.list()
    assert {name: entry["version"] for name, entry in listed.items()} == {"old": 1, "new": 2}
    assert lance.dataset(uri, version="old").to_table() == rows(0)
    lance.dataset(uri).tags.delete("old")
    assert dataset.tags() == {"new": Tag("new", 2)}


def test_names_of_guards_are_refused(uri: str) -> None:
    """A tag with one would not be listed, and a clean-up would remove it after a week, and the version with it."""
    dataset = lance_spark.open(uri)
    lance.dataset(uri).tags.create(f"{GUARD_PREFIX}theirs", 1)
    for name in (f"{GUARD_PREFIX}new", f"{GUARD_PREFIX}theirs"):
        for verb in (dataset.create_tag, dataset.update_tag, dataset.tags.create, dataset.tags.update):
            with pytest.raises(InvalidInputError, match="for restores"):
                verb(name, 2)
    dataset.delete_tag(f"{GUARD_PREFIX}theirs")
    assert lance.dataset(uri).tags.list() == {}


def test_the_file_is_that_of_pylance(uri: str) -> None:
    lance_spark.open(uri).create_tag("ours", 1)
    lance.dataset(uri).tags.create("theirs", 1)
    own, committed = (json.loads(tag_file(uri, name)) for name in ("ours", "theirs"))
    assert list(own) == list(committed)
    assert own["createdAt"] == own["updatedAt"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", own["createdAt"])
    times = ("createdAt", "updatedAt")
    assert {key: own[key] for key in own if key not in times} == {
        key: committed[key] for key in own if key not in times
    }


def test_we_read_move_and_remove_their_tag(uri: str) -> None:
    lance.dataset(uri).tags.create("t", 1)
    before = json.loads(tag_file(uri, "t"))
    dataset = lance_spark.open(uri)
    assert dataset.update_tag("t", 2).to_table() == lance_spark.open(uri, tag="t").to_table()
    after = json.loads(tag_file(uri, "t"))
    assert list(after) == list(before)
    assert after["createdAt"] == before["createdAt"] < after["updatedAt"]
    assert lance.dataset(uri, version="t").version == 2
    dataset.delete_tag("t")
    assert lance.dataset(uri).tags.list() == {}
    assert dataset.versions()[0].version == 1


@pytest.mark.parametrize("name", ["", "a/b", "..", "a..b", ".a", "a.", "a.lock", "a b", "A-_.1", "main"])
def test_names_are_allowed_as_by_pylance(uri: str, name: str) -> None:
    try:
        lance.dataset(uri).tags.create(name, 1)
        lance.dataset(uri).tags.delete(name)
    except OSError:
        with pytest.raises(InvalidInputError):
            lance_spark.open(uri).create_tag(name)
    else:
        lance_spark.open(uri).create_tag(name)


def test_what_is_not_there(uri: str) -> None:
    dataset = lance_spark.open(uri)
    dataset.create_tag("t", 1)
    with pytest.raises(InvalidInputError, match="already"):
        dataset.create_tag("t", 2)
    for call in (
        lambda: dataset.create_tag("other", 3),
        lambda: dataset.update_tag("t", 3),
        lambda: dataset.update_tag("other"),
        lambda: dataset.delete_tag("other"),
    ):
        with pytest.raises(NotFoundError):
            call()
    assert dataset.tags() == {"t": Tag("t", 1)}


def test_a_tag_of_a_branch_lies_in_the_main_root(uri: str) -> None:
    lance.dataset(uri).create_branch("b/r", 2)
    branch = lance_spark.open(uri, branch="b/r")
    branch.create_tag("ours")
    lance.dataset(uri).tags.create("theirs", ("b/r", 2))
    own, committed = (json.loads(tag_file(uri, name)) for name in ("ours", "theirs"))
    assert [own[key] for key in ("branch", "version", "manifestSize")] == [
        committed[key] for key in ("branch", "version", "manifestSize")
    ]
    assert lance_spark.open(uri).tags()["ours"] == Tag("ours", 2, "b/r")
    assert lance_spark.open(uri, tag="ours").branch == "b/r"
    assert lance.dataset(uri, version="ours").count_rows() == 2


@pytest.mark.parametrize("harm", [Harm.ANSWER_LOST, Harm.NOT_SENT, Harm.SENT_TWICE])
def test_a_lost_reply_makes_one_tag(uri: str, harm: Harm) -> None:
    assert create_tag(with_faults(uri, Fault(PUT, harm, path_part="_refs/")), "t", 1, NO_WAIT).version == 1
    assert lance_spark.open(uri).tags() == {"t": Tag("t", 1)}


def test_a_lost_reply_does_not_hide_the_tag_of_another(uri: str) -> None:
    def meanwhile() -> None:
        lance.dataset(uri).tags.create("t", 1)

    location = with_faults(uri, Fault(PUT, Harm.NONE, run=meanwhile))
    with pytest.raises(InvalidInputError, match="already"):
        create_tag(location, "t", 1, NO_WAIT)


def test_a_store_that_never_answers(uri: str) -> None:
    location = with_faults(uri, Fault(PUT, Harm.NOT_SENT, times=100))
    with pytest.raises(StorageError, match="did not say"):
        create_tag(location, "t", 1, NO_WAIT)
