"""Tags that keep what a shallow clone shares: clean-ups of its table by both libraries leave the clone complete."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CommitConflictError, InvalidInputError, NotFoundError
from lance_spark.storage.faults import Fault, FaultStore, Harm
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.history import History
from lance_spark.table.refs.clone_tags import tagged_clone
from lance_spark.table.refs.refs import Refs

NOW = timedelta(0)


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


def values(uri: str) -> list[int]:
    """The rows of a table, in which both libraries agree."""
    ours, theirs = (dataset.to_table()["a"].to_pylist() for dataset in (lance_spark.open(uri), lance.dataset(uri)))
    assert ours == theirs
    return list(ours)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "base")
    lance_spark.write(rows(1, 2, 3), uri)
    return uri


def clean_up_theirs(uri: str) -> None:
    lance.dataset(uri).cleanup_old_versions(NOW, error_if_tagged_old_versions=False)


def clean_up_ours(uri: str) -> None:
    lance_spark.open(uri).cleanup(older_than=NOW)


def clean_up_by_config(uri: str) -> None:
    config = {"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"}
    lance_spark.open(uri).update_config(config)
    lance_spark.write(rows(8), uri, mode="append")


def clean_up_by_config_theirs(uri: str) -> None:
    config = {"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"}
    lance.dataset(uri).update_config(config)
    lance.write_dataset(rows(8), uri, mode="append")


@pytest.mark.parametrize("clean_up", [clean_up_ours, clean_up_theirs, clean_up_by_config, clean_up_by_config_theirs])
def test_clean_up_of_the_base_keeps_the_files_of_a_clone(uri: str, tmp_path: Path, clean_up: Any) -> None:
    clone = str(tmp_path / "clone")
    lance_spark.open(uri).shallow_clone(clone)
    lance_spark.write(rows(7), uri, mode="overwrite")
    lance_spark.write(rows(9), uri, mode="overwrite")
    clean_up(uri)
    numbers = [entry["version"] for entry in lance.dataset(uri).versions()]
    assert numbers[0] == 1
    # By its config the reference cleans up nothing while an old version has a tag.
    assert (2 in numbers) is (clean_up is clean_up_by_config_theirs)
    assert values(clone) == [1, 2, 3]


def test_files_go_when_the_tag_is_removed(uri: str, tmp_path: Path) -> None:
    clone = str(tmp_path / "clone")
    dataset = lance_spark.open(uri).shallow_clone(clone)
    (tag,) = lance_spark.open(uri).tags()
    lance_spark.write(rows(9), uri, mode="overwrite").delete_tag(tag)
    assert lance_spark.open(uri).cleanup(older_than=NOW).data_files == 1
    with pytest.raises(NotFoundError):
        dataset.to_table()


def test_pylance_lists_the_tag_and_names_it_in_its_refusal(uri: str, tmp_path: Path) -> None:
    clone = str(tmp_path / "a clone")
    lance_spark.open(uri).shallow_clone(clone)
    dataset = lance.dataset(uri)
    ((name, tag),) = dataset.tags.list().items()
    assert name.startswith("lance-clone-a-clone-")
    assert (tag["version"], tag["branch"], tag["metadata"]) == (1, None, {"clone": clone})
    assert dataset.branches.list() == {}
    lance.write_dataset(rows(4), uri, mode="append")
    with pytest.raises(OSError, match=name):
        lance.dataset(uri).cleanup_old_versions(NOW)
    lance.dataset(uri).tags.update(name, 2)
    assert lance.dataset(uri).tags.list()[name]["metadata"] == {"clone": clone}


def test_clone_of_a_branch_keeps_its_version(uri: str, tmp_path: Path) -> None:
    clone = str(tmp_path / "clone")
    lance_spark.open(uri).create_branch("b")
    made = lance_spark.write(rows(4), uri, mode="append", branch="b")
    lance_spark.open(f"{uri}/tree/b").shallow_clone(str(tmp_path / "by folder"))
    made.shallow_clone(clone)
    assert [(tag.branch, tag.version) for tag in lance_spark.open(uri).tags().values()] == [("b", made.version)] * 2
    lance_spark.write(rows(9), uri, mode="overwrite", branch="b").cleanup(older_than=NOW)
    lance_spark.write(rows(9), uri, mode="overwrite").cleanup(older_than=NOW)
    assert values(clone) == values(str(tmp_path / "by folder")) == [1, 2, 3, 4]
    with pytest.raises(InvalidInputError, match="lance-clone-"):
        lance_spark.open(uri).delete_branch("b")


def test_clone_of_a_clone_is_kept_by_all_of_its_bases(uri: str, tmp_path: Path) -> None:
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    lance_spark.write(rows(4), uri, mode="append").shallow_clone(first, 1)
    lance_spark.write(rows(5), first, mode="append").shallow_clone(second)
    by_clone = {Path(tag["metadata"]["clone"]).name: name for name, tag in lance.dataset(uri).tags.list().items()}
    assert set(by_clone) == {"first", "second"}
    assert {tag.version for tag in lance_spark.open(uri).tags().values()} == {1}
    lance_spark.open(uri).delete_tag(by_clone["first"])
    for place in (uri, first):
        lance_spark.write(rows(9), place, mode="overwrite")
        clean_up_ours(place)
    assert values(second) == [1, 2, 3, 5]


def test_clone_that_fails_leaves_no_tag(uri: str, tmp_path: Path) -> None:
    lance_spark.write(rows(1), tmp_path / "other")
    with pytest.raises(InvalidInputError, match="already"):
        lance_spark.open(uri).shallow_clone(tmp_path / "other")
    with pytest.raises(NotFoundError):
        lance_spark.open(uri).shallow_clone(tmp_path / "new", 7)
    location = TableLocation(str(tmp_path / "new"))
    others = Fault("put_if_absent", Harm.NONE, run=lambda: lance_spark.write(rows(1), tmp_path / "new") and None)
    location.store = FaultStore(location.store, [others])
    location.history = History(location.store)
    with pytest.raises(CommitConflictError):
        tagged_clone(TableLocation(uri), 1, location)
    assert lance_spark.open(uri).tags() == {}


def test_table_that_nothing_can_be_written_to_is_cloned_with_a_warning(
    uri: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    location = TableLocation(uri)
    location.refs = Refs(FaultStore(location.store, [Fault("put_if_absent", Harm.FAILS, times=99)]))
    with caplog.at_level(logging.WARNING):
        tagged_clone(location, 1, TableLocation(str(tmp_path / "clone")))
    assert "got no tag for its clone" in caplog.text
    assert values(str(tmp_path / "clone")) == [1, 2, 3]
