"""MERGE of ours and of the reference library, concurrently, on a table with an unenforced primary key.

The reference library records the inserted keys in a filter (`Update.inserted_rows`) of its transactions; ours does not.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark._proto import transaction_pb2

_SCHEMA = pa.schema([pa.field("id", pa.int64(), False, metadata={"lance-schema:unenforced-primary-key": "true"})])


def rows(start: int, stop: int) -> pa.Table:
    return pa.table({"id": list(range(start, stop))}, schema=_SCHEMA)


def merge_by_reference(dataset: lance.LanceDataset, source: pa.Table, retries: int = 0) -> None:
    dataset.merge_insert("id").when_not_matched_insert_all().conflict_retries(retries).execute(source)


def merge_by_us(uri: str) -> None:
    lance_spark.open(uri).merge(rows(5, 8), on="id")


def append_by_us(uri: str) -> None:
    lance_spark.write(rows(5, 8), uri, mode="append")


def ids(uri: str) -> list[int]:
    return sorted(lance.dataset(uri).to_table()["id"].to_pylist())


@pytest.fixture
def uri(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    lance.write_dataset(rows(0, 5), path)
    return path


def test_reference_merge_writes_the_key_filter(uri: str) -> None:
    merge_by_reference(lance.dataset(uri), rows(3, 8))
    transactions = [
        transaction_pb2.Transaction.FromString(path.read_bytes()) for path in Path(uri, "_transactions").iterdir()
    ]
    (update,) = [transaction.update for transaction in transactions if transaction.HasField("update")]
    assert update.inserted_rows.WhichOneof("data") == "bloom"
    assert list(update.inserted_rows.field_ids) == [0]


def test_our_merge_after_a_reference_merge_inserts_no_key_twice(uri: str) -> None:
    stale = lance_spark.open(uri)
    merge_by_reference(lance.dataset(uri), rows(5, 8))
    stale.merge(rows(5, 9), on="id")
    assert ids(uri) == list(range(9))


@pytest.mark.parametrize("commit", [merge_by_us, append_by_us])
def test_reference_merge_conflicts_with_our_commit_without_a_key_filter(
    uri: str, commit: Callable[[str], None]
) -> None:
    stale = lance.dataset(uri)
    commit(uri)
    with pytest.raises(OSError, match="concurrent writers"):
        merge_by_reference(stale, rows(5, 9))
    assert ids(uri) == list(range(8))
    merge_by_reference(stale, rows(5, 9), retries=3)
    assert ids(uri) == list(range(9))
