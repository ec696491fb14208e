"""Tables that ask for it are cleaned up after commits, and a commit never fails for it."""

from __future__ import annotations

import ast
import logging
import pickle
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.dataset import AutoCleanupConfig

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.storage.faults import Fault, FaultStore
from lance_spark.table.cleanup.auto_cleanup import INTERVAL, OLDER_THAN, RETAIN_VERSIONS, clean_up_after, parse_duration
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.history import History
from lance_spark.table.operations.base import OperationKind
from lance_spark.table.versions.changes import update_config

ROWS = pa.table({"a": [1, 2, 3]})


def numbers(uri: str) -> list[int]:
    return [entry["version"] for entry in lance.dataset(uri).versions()]


def test_off_unless_asked_for(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    for _ in range(5):
        lance_spark.write(ROWS, uri, mode="overwrite")
    assert numbers(uri) == [1, 2, 3, 4, 5]


def test_the_config_decides(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(ROWS, uri)
    lance_spark.open(uri).update_config({INTERVAL: "3", RETAIN_VERSIONS: "2"})
    assert numbers(uri) == [1, 2]
    lance_spark.open(uri).delete("a = 1")
    assert numbers(uri) == [2, 3]
    lance_spark.open(uri).create_tag("t", 3)
    for _ in range(3):
        lance_spark.write(ROWS, uri, mode="overwrite")
    assert numbers(uri) == [3, 5, 6]
    lance_spark.open(uri).update_config({OLDER_THAN: "1h"})
    for _ in range(3):
        lance_spark.write(ROWS, uri, mode="overwrite")
    assert numbers(uri) == [3, 5, 6, 7, 8, 9, 10]
    assert lance.dataset(uri).to_table() == ROWS
    lance_spark.open(uri).update_config({OLDER_THAN: "0s", RETAIN_VERSIONS: None})
    lance_spark.open(uri).restore(3)
    # The restored version's config counts.
    assert numbers(uri) == [3, 11, 12]


def test_what_pylance_has_set(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    options = AutoCleanupConfig(interval=2, older_than_seconds=0)
    lance.write_dataset(ROWS, uri, auto_cleanup_options=options)
    assert lance_spark.open(uri).config[INTERVAL] == "2"
    parse_duration(lance_spark.open(uri).config[OLDER_THAN])
    lance_spark.write(ROWS, uri, mode="append")
    assert numbers(uri) == [2]


def test_branches_have_turns_of_their_own(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(ROWS, uri)
    lance_spark.open(uri).update_config({INTERVAL: "4", RETAIN_VERSIONS: "1"})
    lance_spark.open(uri).create_branch("b")
    for _ in range(2):
        lance_spark.write(ROWS, uri, mode="overwrite", branch="b")
    assert [entry.version for entry in lance_spark.open(uri, branch="b").versions()] == [4]
    assert numbers(uri) == [1, 2]


def _reopened(uri: str) -> lance_spark.Dataset:
    return lance_spark.open(uri)


def _unpickled(uri: str) -> lance_spark.Dataset:
    dataset: lance_spark.Dataset = pickle.loads(pickle.dumps(lance_spark.open(uri)))
    return dataset


def _cloned(uri: str) -> lance_spark.Dataset:
    return lance_spark.open(uri).shallow_clone(f"{uri}_clone")


def _branch(uri: str) -> lance_spark.Dataset:
    lance_spark.open(uri).create_branch("b")
    return lance_spark.open(uri, branch="b")


def _branch_root(uri: str) -> lance_spark.Dataset:
    lance_spark.open(uri).create_branch("b")
    return lance_spark.open(f"{uri}/tree/b")


@pytest.mark.parametrize("opened", [_reopened, _unpickled, _cloned, _branch, _branch_root])
def test_commits_clean_up_however_the_table_was_opened(
    tmp_path: Path, opened: Callable[[str], lance_spark.Dataset]
) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(ROWS, uri)
    lance_spark.open(uri).update_config({INTERVAL: "1", RETAIN_VERSIONS: "1"})
    dataset = opened(uri)
    for value in (1, 2):
        dataset = dataset.delete(f"a = {value}")
    assert [entry.version for entry in dataset.versions()] == [dataset.version]


@pytest.mark.slow
def test_locations_for_commits_name_what_follows_a_commit() -> None:
    """A location without `after_commit` would never clean up; those listed here are only read from."""
    only_read = {
        "catalog.py",  # Looks whether a table is there; `open_table` opens it.
        "namespace/directory/catalog_table.py",
        "namespace/directory/places.py",
        "namespace/directory/dropped_tables.py",
        "namespace/external/catalog.py",
        "partitioned/table.py",  # Commits to partitions are made on pinned copies; `vacuum` cleans them up.
        "partitioned/maintenance/vacuum.py",
        "partitioned/new_name.py",  # Looks whether a table is there.
        "partitioned/new_table.py",  # Looks whether a table is there.
        "spark/blobs/references.py",
        "spark/plugin/reader.py",
        "spark/streaming/history.py",
        "table/refs/clone_tags.py",  # Tags are no commits.
    }
    root = Path(lance_spark.__file__).parent
    without = set()
    for path in root.rglob("*.py"):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        opened = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "TableLocation"]
        if any(all(keyword.arg != "after_commit" for keyword in call.keywords) for call in opened):
            without.add(str(path.relative_to(root)))
    assert without == only_read


@pytest.mark.parametrize(
    "config",
    [{INTERVAL: "0"}, {INTERVAL: "often"}, {INTERVAL: "1", OLDER_THAN: "long"}, {INTERVAL: "1", RETAIN_VERSIONS: "-1"}],
)
def test_nonsense_is_logged(tmp_path: Path, config: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(ROWS, uri)
    location = TableLocation(uri)
    update_config(location, location.newest(), config)  # As another writer that does not look at the values.
    with caplog.at_level(logging.WARNING):
        assert lance_spark.write(ROWS, uri, mode="append").version == 3
    assert "cleaning up after it failed" in caplog.text


@pytest.mark.parametrize("operation", ["delete", "list", "read"])
def test_trouble_with_the_store_is_logged(tmp_path: Path, operation: str, caplog: pytest.LogCaptureFixture) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(ROWS, uri)
    lance_spark.write(ROWS, uri, mode="overwrite")
    made = lance_spark.open(uri).update_config({INTERVAL: "99", RETAIN_VERSIONS: "1"}).manifest
    location = TableLocation(uri)
    location.store = FaultStore(location.store, [Fault(operation, times=99)])
    location.history = History(location.store)
    clean_up_after(location, replace(made, version=99), OperationKind.APPEND)
    assert "failed" in caplog.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("14days", timedelta(days=14)),
        ("1h", timedelta(hours=1)),
        ("1day 2h 3m", timedelta(days=1, hours=2, minutes=3)),
        ("2 weeks", timedelta(days=14)),
        ("90s", timedelta(seconds=90)),
        ("0s", timedelta(0)),
        ("1500ms", timedelta(seconds=1.5)),
    ],
)
def test_durations(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    "text", ["", "14", "days", "-1h", "1 fortnight", "1h,", "9" * 400 + "y", "99999999999999y", "\uff11h"]
)
def test_no_durations(text: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_duration(text)
