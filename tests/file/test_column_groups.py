"""Columns of one type and layout are decoded together, with the same rows and errors as one by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.errors import CorruptFileError
from lance_spark.layouts.base import RowRanges
from lance_spark.layouts.mini_block.layout import MiniBlockLayout
from tests.file.reference_files import check, layouts, open_file, pages, single_rows, write
from tests.support import arrays

ROWS = 5000
COPIES = 9


def _columns(kind: str, rng: np.random.Generator) -> pa.Array:
    def nulls(count: int) -> np.ndarray:
        return rng.random(count) < 0.1

    makers: dict[str, Callable[[], pa.Array]] = {
        "int": lambda: pa.array(rng.integers(0, 1000, ROWS)),
        "int with nulls": lambda: pa.array(rng.integers(0, 1000, ROWS), mask=nulls(ROWS)),
        "double": lambda: pa.array(rng.random(ROWS)),
        "bool": lambda: pa.array(rng.random(ROWS) < 0.3),
        "bool with nulls": lambda: pa.array(rng.random(ROWS) < 0.3, mask=nulls(ROWS)),
        "text": lambda: pa.array([f"{number:x}" for number in rng.integers(0, 2**60, ROWS).tolist()]),
        "word": lambda: pa.array([f"{rng.integers(9)} word" for _ in range(ROWS)], mask=nulls(ROWS)),
        "list": lambda: arrays.list_of(lambda count: pa.array(rng.integers(0, 99, count)), ROWS, 0.1, rng),
        "struct": lambda: pa.StructArray.from_arrays(
            [pa.array(rng.integers(0, 1000, ROWS), mask=nulls(ROWS))], ["i"], mask=pa.array(nulls(ROWS))
        ),
    }
    return makers[kind]()


KINDS = ("int", "int with nulls", "double", "bool", "bool with nulls", "text", "word", "list", "struct")


def _table(kinds: tuple[str, ...] = KINDS) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table({f"{kind} {copy}": _columns(kind, rng) for copy in range(COPIES) for kind in kinds})


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of pages that were read together."""
    seen: list[int] = []
    read_run = MiniBlockLayout.read_run

    def counted(self: MiniBlockLayout, layouts: list, pages: list, rows: RowRanges) -> object:
        seen.append(len(pages))
        return read_run(self, layouts, pages, rows)

    monkeypatch.setattr(MiniBlockLayout, "read_run", counted)
    return seen


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_columns_of_one_layout_are_read_together(tmp_path: Path, groups: list[int], version: str) -> None:
    expected = _table()
    file = write(tmp_path / "x.lance", expected, version)
    assert len(pages(file)) == COPIES * len(KINDS)
    rows = RowRanges.of(10, 1500)
    assert file.read_table(rows=rows).equals(expected.slice(10, 1490))
    together = list(groups)
    # Doubles are not always mini-blocks, and the layouts of the texts are up to the reference library.
    assert together.count(COPIES) >= 6
    check(file, expected)


def test_rows_are_those_of_columns_read_alone(
    tmp_path: Path, groups: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _table()
    write(tmp_path / "x.lance", expected)
    some = [RowRanges.of(0, ROWS), RowRanges.of(999, 3100), single_rows(np.arange(7, ROWS, 501))]
    together = [open_file(tmp_path / "x.lance").read_table(rows=rows) for rows in some]
    assert groups
    groups.clear()
    monkeypatch.setattr(MiniBlockLayout, "join_key", lambda *_: None)
    alone = [open_file(tmp_path / "x.lance").read_table(rows=rows) for rows in some]
    assert not groups
    for one, other in zip(together, alone, strict=True):
        one.validate(full=True)
        assert one.equals(other)


def test_other_types_nullability_and_widths_stay_apart(tmp_path: Path, groups: list[int]) -> None:
    values = np.arange(ROWS)
    fields = [
        pa.field("a", pa.int64()),
        pa.field("b", pa.int64(), nullable=False),
        pa.field("c", pa.uint64()),
        pa.field("d", pa.timestamp("us")),
        pa.field("e", pa.int32()),
    ]
    schema = pa.schema(fields)
    file = write(tmp_path / "x.lance", pa.table([pa.array(values).cast(field.type) for field in fields], schema=schema))
    assert file.read_table(rows=RowRanges.of(3, 99)).schema.types == schema.types
    assert groups == []


def test_an_error_names_the_column_of_the_group(tmp_path: Path, groups: list[int]) -> None:
    path = tmp_path / "x.lance"
    file = write(path, _table(("int",)))
    assert len({layout.join_key(1, ROWS) for layout in layouts(file) if isinstance(layout, MiniBlockLayout)}) == 1
    content = bytearray(path.read_bytes())
    damaged_column = 6
    # The words of its chunks: the first one claims to be far larger than it is.
    content[pages(file)[damaged_column].buffers[0].position + 1] ^= 0xFF
    path.unlink()
    path.write_bytes(content)
    for rows in (None, RowRanges.of(0, 30), single_rows(np.array([1, 2000]))):
        with pytest.raises(CorruptFileError) as caught:
            open_file(path).read_table(rows=rows)
        assert (caught.value.column, caught.value.page) == (damaged_column, 0)
    assert COPIES in groups
    others = [f"int {copy}" for copy in range(COPIES) if copy != damaged_column]
    assert open_file(path).read_table(others).equals(_table(("int",)).select(others))


def test_chunk_words_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    texts = [f"{number:013d}" for number in rng.integers(0, 2**40, 100_000).tolist()]
    file = write(tmp_path / "x.lance", pa.table({"x": texts}))
    rounds: list[int] = []
    answers = type(file)._answers

    def counted(self: object, requests: list) -> list:
        rounds.append(len(requests))
        return answers(file, requests)

    monkeypatch.setattr(type(file), "_answers", counted)
    # Rows of a file in memory are picked without requests.
    monkeypatch.setattr(type(file), "in_memory", lambda self: None)
    fields, columns = file.schema.fields, file.columns
    first = file.read(fields, columns, single_rows(np.array([5, 70_000])))
    num_first = len(rounds)
    again = file.read(fields, columns, single_rows(np.array([5, 70_000])))
    assert again == first
    assert len(rounds) - num_first == 1
    assert num_first == 2  # The words, the chunks.
