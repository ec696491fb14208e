"""Which fragments a filter on system columns selects: those in which it can be true, asked of many together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_spark
from lance_spark._proto import table_pb2
from lance_spark.expr.nodes import Column, Expr, InArray
from lance_spark.expr.sql.parse import parse
from lance_spark.spark.connector.scan import selection
from lance_spark.spark.connector.scan.selection import RowChoice, ScannedFragments, SplitScan
from lance_spark.table.reading.scan import Scan
from lance_spark.table.rows.fragment import FragmentList
from lance_spark.table.source import Split

pytestmark = pytest.mark.tasks


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> lance_spark.Dataset:
    return lance_spark.write(pa.table({"k": [1]}), str(tmp_path_factory.mktemp("t") / "t"))


def selected(dataset: lance_spark.Dataset, fragments: list[tuple[int, int]], condition: Expr) -> list[int]:
    """The ids of the selected ones of `fragments`, of which each is an id and a number of rows."""
    messages = [table_pb2.DataFragment(id=number, physical_rows=rows) for number, rows in fragments]
    manifest = replace(dataset.manifest, fragments=FragmentList(messages))
    scan = Scan.of(dataset.lance_schema, dataset.location.bases(manifest), columns=["k"], filter=condition)
    splits = [SplitScan(Split(dataset.location, manifest), scan)]
    found = RowChoice().of(splits)
    assert all(first.stop < second.start for first, second in pairwise(found))
    return [fragment.id for _, fragment in ScannedFragments(found, splits)]


def addresses(*rows: tuple[int, int]) -> Expr:
    return InArray(Column(("_rowaddr",)), pa.array([number << 32 | offset for number, offset in rows], pa.uint64()))


ids = st.lists(st.integers(0, 80), max_size=60, unique=True)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(ids, st.lists(st.tuples(st.integers(0, 80), st.integers(0, 9)), min_size=1, max_size=4))
def test_fragments_of_addresses(
    dataset: lance_spark.Dataset, numbers: list[int], wanted: list[tuple[int, int]]
) -> None:
    fragments = [(number, 5) for number in numbers]
    expected = [number for number in numbers if any((number, offset) in wanted for offset in range(5))]
    assert selected(dataset, fragments, addresses(*wanted)) == expected


@pytest.mark.parametrize(
    ("condition", "matches"),
    [
        ("_fragid = 7", lambda number: number == 7),
        ("_fragid != 7", lambda number: number != 7),
        ("_fragid >= 1000", lambda number: number >= 1000),
        ("_fragid < 3 OR _fragid = 40", lambda number: number < 3 or number == 40),
    ],
)
@settings(deadline=None, max_examples=20)
@given(ids)
def test_fragments_of_ids(
    dataset: lance_spark.Dataset, condition: str, matches: Callable[[int], bool], numbers: list[int]
) -> None:
    expected = [number for number in numbers if matches(number)]
    assert selected(dataset, [(number, 5) for number in numbers], parse(condition)) == expected


def test_the_largest_id_and_an_unknown_number_of_rows(dataset: lance_spark.Dataset) -> None:
    last = (1 << 32) - 1
    fragments = [(0, 0), (4, 10), (last, 1 << 32)]
    assert selected(dataset, fragments, addresses((0, last), (4, 10), (last, last))) == [0, last]


def test_few_questions_about_many_fragments(dataset: lance_spark.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def counted(*args: object, **options: object) -> bool:
        nonlocal asked
        asked += 1
        return may_match(*args, **options)  # type: ignore[arg-type]

    may_match = selection.may_match
    monkeypatch.setattr(selection, "may_match", counted)
    fragments = [(number, 5) for number in range(5000)]
    assert selected(dataset, fragments, addresses((17, 0), (4321, 4), (4322, 5))) == [17, 4321]
    assert asked < 200
