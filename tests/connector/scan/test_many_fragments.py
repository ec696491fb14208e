"""Plans over many fragments: what a fragment costs, and that the tasks read each of them."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.spark.connector.channel.registry import PROTOCOL, answer
from lance_spark.spark.connector.channel.tasks import ReadWork
from lance_spark.table.rows.fragment import DataFragment
from tests.support.connector.scan_requests import loaded

pytestmark = pytest.mark.tasks

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


def test_a_plan_parses_no_fragment(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks get the messages of the manifest as they are."""

    def refused(*_: object) -> None:
        raise AssertionError("a plan needs no parsed fragment")

    monkeypatch.setattr(DataFragment, "from_proto", refused)
    monkeypatch.setattr(DataFragment, "to_proto", refused)
    _, work = _work(uri)
    monkeypatch.undo()
    column = pa.RecordBatch.from_pydict({"work": pa.array(work, pa.binary())})
    sent = [data for item in ReadWork.of_rows([column]) for part in item.parts for data in part.slices.fragments]
    fragments = lance_spark.open(uri).manifest.fragments
    assert list(map(DataFragment.from_bytes, sent)) == list(fragments)
    assert sent == [fragment.to_bytes() for fragment in fragments]
    assert sent == [fragments.to_bytes(place) for place in range(FRAGMENTS)]


def test_tasks_read_the_rows_of_all_fragments(uri: str) -> None:
    function, work = _work(uri)
    assert callable(function)
    batches = [pa.RecordBatch.from_pydict({"work": pa.array([item], pa.binary())}) for item in work]
    rows = [row for batch in batches for found in function(iter([batch])) for row in found.to_pylist()]
    assert rows == lance.dataset(uri).to_table().to_pylist()
