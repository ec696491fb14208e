"""What `versions` tells: against the reference library's numbers, with one read a version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark._proto import table_pb2
from lance_spark.storage.base import ObjectInfo
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests import manifest_store
from lance_spark.table.manifests.history import History
from lance_spark.table.versions import version_summary
from lance_spark.table.versions.version_summary import Difference, version_summaries
from tests.support.counting_store import CountingStore


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t")
    lance.write_dataset(
        rows(*range(10)), uri, max_rows_per_file=4, commit_message="first", transaction_properties={"k": "v"}
    )
    lance_spark.write(rows(10, 11), uri, mode="append", commit_message="more")
    lance.dataset(uri).delete("a = 3 or a >= 10")
    lance.dataset(uri).update({"a": "a + 100"}, where="a = 0")
    lance.dataset(uri).optimize.compact_files()
    lance.dataset(uri).update_config({"x": "y"})
    lance_spark.open(uri).restore(1)
    return uri


def test_what_each_version_tells(uri: str) -> None:
    versions = lance_spark.open(uri).versions()
    assert [entry.version for entry in versions] == list(range(1, 9))
    assert [entry.operation for entry in versions] == [
        "overwrite", "append", "delete", "update", "reserve_fragments", "rewrite", "update_config", "restore"
    ]  # fmt: skip
    assert [entry.message for entry in versions[:3]] == ["first", "more", None]
    assert versions[0].properties == {"k": "v"}
    assert versions[1].properties == {}
    assert [entry.read_version for entry in versions] == [0, 1, 2, 3, 4, 4, 6, 7]
    assert [entry.writer.library for entry in versions if entry.writer] == [
        "lance", "lance_spark", "lance", "lance", "lance", "lance", "lance", "lance_spark"
    ]  # fmt: skip
    transaction = lance.dataset(uri).read_transaction(2)
    assert transaction is not None
    assert versions[1].transaction == transaction.uuid


def test_the_numbers_are_those_of_pylance(uri: str) -> None:
    for own, committed in zip(lance_spark.open(uri).versions(), lance.dataset(uri).versions(), strict=True):
        told = {key.removeprefix("total_"): int(value) for key, value in committed["metadata"].items()}
        assert own.content.num_fragments == told["fragments"]
        assert own.content.num_data_files == told["data_files"]
        assert own.content.num_rows == told["rows"]
        assert own.content.num_deleted_rows == told["deletion_file_rows"]
        assert own.content.num_bytes == told["files_size"]


def test_differences(uri: str) -> None:
    found = [entry.difference for entry in lance_spark.open(uri).versions()]
    nothing = Difference(0, 0, 0, 0, 0, 0)
    assert found[:5] == [
        Difference(3, 0, 3, 0, 10, 0),
        Difference(1, 0, 1, 0, 2, 0),
        Difference(0, 1, 0, 1, 0, 3),
        Difference(1, 0, 1, 0, 1, 1),
        nothing,
    ]
    assert found[5] is not None
    assert (found[5].added_rows, found[5].removed_rows) == (0, 0), "a compaction only moves rows"
    assert found[5].removed_fragments > found[5].added_fragments > 0
    assert found[6] == nothing
    for entry, before in zip(lance_spark.open(uri).versions()[1:], lance_spark.open(uri).versions(), strict=False):
        change = entry.difference
        assert change is not None
        assert (change.added_rows or 0) - (change.removed_rows or 0) == (entry.content.num_rows or 0) - (
            before.content.num_rows or 0
        )


def test_one_read_a_version(uri: str) -> None:
    store = CountingStore(TableLocation(uri).store)
    assert len(version_summaries(History(store))) == 8
    assert store.counts.read_requests == 8


def test_versions_that_are_gone(uri: str) -> None:
    Path(uri, "_versions", "18446744073709551612.manifest").unlink()
    versions = lance_spark.open(uri).versions()
    assert [entry.version for entry in versions] == [1, 2, 4, 5, 6, 7, 8]
    assert [entry.difference is None for entry in versions] == [False, False, True, False, False, False, False]


@pytest.mark.parametrize("limit", [0, 1, 3, 7, 8, 100, (1 << 63) - 1])
def test_limit_returns_the_newest_versions_and_reads_one_manifest_more(uri: str, limit: int) -> None:
    store = CountingStore(TableLocation(uri).store)
    expected = version_summaries(History(store))
    store.reset()
    assert version_summaries(History(store), limit) == expected[max(0, 8 - limit) :]
    assert store.counts.read_requests == (0 if limit == 0 else min(limit + 1, 8))


def test_limit_does_not_list_all_versions_of_a_long_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_store, "_ENOUGH_NAMES", 5)
    uri = "memory://long-history"
    lance_spark.write(rows(1), uri)
    for value in range(20):
        lance_spark.write(rows(value), uri, mode="append")
    store = _LazyListing(TableLocation(uri).store)
    assert [entry.version for entry in version_summaries(History(store), 3)] == [19, 20, 21]
    assert store.listed == 5


class _LazyListing(CountingStore):
    """Counts the names that a listing has given."""

    listed = 0

    def list(self, prefix: str, *, recursive: bool = False) -> Iterator[ObjectInfo]:
        for entry in super().list(prefix, recursive=recursive):
            self.listed += 1
            yield entry


@pytest.mark.slow
def test_only_changed_fragments_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    uri = "memory://history-of-appends"
    lance_spark.write(rows(0), uri)
    for value in range(40):
        lance_spark.write(rows(value), uri, mode="append")
    parsed: list[bytes] = []
    from_string = table_pb2.DataFragment.FromString

    def counting(message: bytes) -> table_pb2.DataFragment:
        parsed.append(message)
        return from_string(message)

    monkeypatch.setattr(version_summary, "_fragment", counting)
    versions = version_summaries(History(CountingStore(TableLocation(uri).store)))
    assert [entry.content.num_rows for entry in versions] == list(range(1, 42))
    assert [entry.difference and entry.difference.added_rows for entry in versions] == [1] * 41
    assert len(parsed) <= 3 * 41


def test_known_versions_are_not_read_again(uri: str) -> None:
    location = TableLocation("memory://known-versions")
    for value in range(4):
        lance_spark.write(rows(value), location.uri, mode="append")
    first = version_summaries(location.history)
    lance_spark.write(rows(9), location.uri, mode="append")
    read: list[str] = []
    store = location.store
    history = History(store)
    history.summary_at = lambda found: read.append(found.path) or History(store).summary_at(found)  # type: ignore[method-assign,func-returns-value]
    assert version_summaries(history)[:4] == first
    assert len(read) == 2, "the new version and the one before it"


def test_a_branch_begins_with_a_clone(uri: str) -> None:
    branch = lance_spark.open(uri).create_branch("b").delete("a = 1")
    assert [(entry.version, entry.operation) for entry in branch.versions()] == [(8, "clone"), (9, "delete")]


def test_a_version_of_an_unknown_operation(uri: str) -> None:
    location = TableLocation(uri)
    file = location.history.load_latest()
    from lance_spark.table.manifests.manifest_file import ManifestFile

    location.store.put(location.history.latest_location().path, ManifestFile(file.manifest, None).encode())  # type: ignore[union-attr]
    Path(uri, "_transactions", file.manifest.transaction_file).unlink()
    last = lance_spark.open(uri).versions()[-1]
    assert (last.operation, last.read_version, last.transaction, last.message) == ("unknown", None, None, None)
