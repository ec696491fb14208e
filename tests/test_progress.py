"""Progress bars are shown where somebody can see them, and nowhere else."""

from __future__ import annotations

import io
import sys
import types
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

import lance_spark
from lance_spark import progress as module
from lance_spark.partitioned.dataset import create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.progress import progress

ROWS = pa.table({"id": range(1000), "p": ["a", "b"] * 500})


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Bars(list[Any]):
    """The bars that were drawn: what, total, unit, and the counts."""

    def draw(self, what: str, total: int | None, unit: str) -> Any:
        counts: list[int] = []
        self.append((what, total, unit, counts))
        return types.SimpleNamespace(advance=counts.append, close=lambda: counts.append(-1))


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    screen = Terminal()
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("LANCE_SPARK_PROGRESS", raising=False)
    monkeypatch.setattr(module, "_screen", lambda: screen)
    monkeypatch.setattr(module, "DELAY_SECONDS", 0)
    yield screen
    lance_spark.set_progress(True)


@pytest.fixture
def bars(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> Bars:
    found = Bars()
    monkeypatch.setattr(module, "_drawn", found.draw)
    return found


def test_operations_of_plain_tables_count_their_rows(bars: Bars) -> None:
    uri = f"memory://progress-{uuid.uuid4().hex}"
    lance_spark.write(ROWS.to_batches(max_chunksize=300), uri, file_format_version="2.1")
    dataset = lance_spark.write(ROWS, uri, mode="append")
    assert bars == [("Writing", None, "rows", [300, 300, 300, 100, -1]), ("Writing", None, "rows", [1000, -1])]
    bars.clear()
    dataset = dataset.create_index("id", "BTREE")
    assert [(what, total, sum(counts)) for what, total, _, counts in bars] == [("Indexing id", 2000, 1999)]
    bars.clear()
    dataset = dataset.upgrade_files("2.2")
    assert bars == [("Upgrading", 2, "fragments", [1, 1, -1])]
    bars.clear()
    dataset = dataset.compact()
    assert [(what, total, sum(counts)) for what, total, _, counts in bars[:1]] == [("Compacting", 2000, 1999)]
    bars.clear()
    assert dataset.cleanup(timedelta(0)).data_files == 4
    ((what, total, unit, counts),) = bars
    assert (what, unit, counts) == ("Removing", "files", [total, -1])


def test_operations_of_partitioned_tables_count_their_rows(bars: Bars) -> None:
    by = [PartitionBy("p", ("p",), Identity())]
    table = create_partitioned_dataset(f"memory://progress-{uuid.uuid4().hex}", ROWS.schema, by)
    table = table.append(ROWS).append(ROWS)
    assert [(what, sum(counts)) for what, _, _, counts in bars] == [("Writing", 999)] * 2
    bars.clear()
    table.compact()
    assert [(what, total, sum(counts)) for what, total, _, counts in bars] == [("Compacting", 1000, 999)] * 2


def test_bar_is_removed_after_an_error(bars: Bars) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from ROWS.to_batches()
        raise ValueError("the source failed")

    with pytest.raises(ValueError, match="the source failed"):
        lance_spark.write(batches(), f"memory://progress-{uuid.uuid4().hex}", schema=ROWS.schema)
    assert bars == [("Writing", None, "rows", [1000, -1])]


@pytest.mark.parametrize("reason", ["no terminal", "switch", "variable", "CI", "soon done"])
def test_nothing_is_shown_in_logs_nor_where_it_is_turned_off(
    bars: Bars, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    if reason == "no terminal":
        monkeypatch.setattr(module, "_screen", io.StringIO)
    elif reason == "switch":
        lance_spark.set_progress(False)
    elif reason == "variable":
        monkeypatch.setenv("LANCE_SPARK_PROGRESS", "0")
    elif reason == "CI":
        monkeypatch.setenv("CI", "true")
    else:
        monkeypatch.setattr(module, "DELAY_SECONDS", 3600)
    lance_spark.write(ROWS, f"memory://progress-{uuid.uuid4().hex}")
    assert bars == []


def test_nested_operations_show_one_bar(bars: Bars) -> None:
    with progress("Outer") as outer, progress("Inner") as inner:
        inner.advance(1)
        outer.advance(2)
    with progress("Quiet", quiet=True) as quiet, progress("Inner") as inner:
        quiet.advance(1)
        inner.advance(1)
    assert bars == [("Outer", None, "rows", [2, -1])]


def test_rich_draws_on_terminals(terminal: Terminal) -> None:
    pytest.importorskip("rich", reason="rich is an extra")
    with progress("Writing", 10) as bar:
        bar.advance(4)
    assert "Writing" in terminal.getvalue()


def test_tqdm_draws_in_notebooks(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []

    def tqdm(**options: Any) -> Any:
        drawn.append(options)
        return types.SimpleNamespace(update=drawn.append, close=lambda: drawn.append("closed"))

    # Neither is needed for tests otherwise.
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=tqdm))
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(module, "_screen", io.StringIO)
    with progress("Writing", 10) as bar:
        bar.advance(4)
    assert (drawn[0]["desc"], drawn[0]["total"], drawn[1:]) == ("Writing", 10, [4, "closed"])


def test_operations_work_without_rich_and_tqdm(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("rich", "rich.console", "rich.progress", "tqdm", "tqdm.auto"):
        monkeypatch.setitem(sys.modules, name, None)
    with progress("Writing", 10) as bar:
        bar.advance(4)
    assert terminal.getvalue() == ""
