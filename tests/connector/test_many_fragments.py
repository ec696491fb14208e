"""Plans over many fragments: what a fragment costs, and that the tasks read each of them."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.spark.connector.channel.registry import PROTOCOL, answer
from lance_spark.spark.connector.channel.tasks import ReadWork
from lance_spark.spark.connector.scan.selection import SelectedFragment
from lance_spark.table.rows.fragment import DataFragment, FragmentList
from tests.connector.scan_requests import loaded

FRAGMENTS = 50


@pytest.fixture
def uri(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    rows = pa.table({"k": range(FRAGMENTS * 10), "v": [f"v{number}" for number in range(FRAGMENTS * 10)]})
    dataset = lance.write_dataset(rows, path, max_rows_per_file=10, max_rows_per_group=10)
    dataset.delete("k % 7 = 0")
    return path


def _work(uri: str) -> tuple[object, list[bytes]]:
    """The function of the tasks of a complete scan, and the work of each."""
    table = loaded(uri)
    columns = {"type": "struct", "fields": table["schema"]["fields"]}
    args = {"handle": table["handle"], "columns": columns}
    message = {"protocol": PROTOCOL, "op": "scan.plan", "session": {"inline_bytes": "0"}, "args": args}
    function, *work = answer(json.dumps(message).encode(), ())[1]
    return pickle.loads(function)[0], work


def test_a_plan_sends_the_messages_of_the_manifest(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No message of a fragment is made again, and its rows are counted once, whatever asks for them."""
    calls: Counter[str] = Counter()
    count_rows = SelectedFragment.num_rows.fget
    assert count_rows is not None

    def counted(selected: SelectedFragment) -> int | None:
        calls["num_rows"] += 1
        return count_rows(selected)

    def made(_: DataFragment) -> None:
        calls["to_proto"] += 1

    monkeypatch.setattr(SelectedFragment, "num_rows", property(counted))
    monkeypatch.setattr(DataFragment, "to_proto", made)
    _, work = _work(uri)
    monkeypatch.undo()
    assert calls == {"num_rows": FRAGMENTS}
    column = pa.RecordBatch.from_pydict({"work": pa.array(work, pa.binary())})
    sent = [piece.fragment for item in ReadWork.of_rows([column]) for part in item.parts for piece in part.slices]
    fragments = lance_spark.open(uri).manifest.fragments
    assert list(map(DataFragment.from_bytes, sent)) == list(fragments)
    assert sent == [fragment.to_bytes() for fragment in fragments]


def test_a_fragment_of_another_version_keeps_its_own_message(uri: str) -> None:
    before, after = (lance_spark.open(uri, version=version).manifest.fragments for version in (1, 2))
    assert before[0] != after[0]
    assert DataFragment.from_bytes(after.to_bytes(before[0])) == before[0]
    assert DataFragment.from_bytes(after.to_bytes(after[0])) == after[0]
    assert FragmentList().to_bytes(after[3]) == after[3].to_bytes()


def test_tasks_read_the_rows_of_all_fragments(uri: str) -> None:
    function, work = _work(uri)
    assert callable(function)
    batches = [pa.RecordBatch.from_pydict({"work": pa.array([item], pa.binary())}) for item in work]
    rows = [row for batch in batches for found in function(iter([batch])) for row in found.to_pylist()]
    assert rows == lance.dataset(uri).to_table().to_pylist()
