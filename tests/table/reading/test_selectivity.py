"""Estimates of what a filter keeps: never far too low, from few reads."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark.errors import InvalidInputError
from lance_spark.storage.cache import shared
from lance_spark.storage.meter import READS
from lance_spark.table.location import TableLocation
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.selectivity import estimated_selectivity, rows_of_a_group

ROWS = 200_000


@pytest.fixture(scope="module", params=[200_000, 30_000, 4_000], ids=["1 file", "7 files", "50 files"])
def uri(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Sorted numbers, mixed numbers, texts, and nulls in the second half; written by the reference library."""
    random = np.random.default_rng(7)
    numbers = np.arange(ROWS)
    table = pa.table(
        {
            "sorted": pa.array(numbers),
            "mixed": pa.array(random.integers(0, 1000, ROWS)),
            "text": pa.array([f"word {number % 50}" for number in numbers]),
            "half": pa.array(numbers, mask=numbers >= ROWS // 2),
        }
    )
    path = str(tmp_path_factory.mktemp("selectivity") / "table")
    lance.write_dataset(table, path, max_rows_per_file=request.param)
    return path


def estimate(uri: str, filter: str | None) -> tuple[float, float]:
    """The estimate, and what is true."""
    location = TableLocation(uri, {})
    manifest = location.latest()
    assert manifest is not None
    scan = Scan.of(manifest.schema, location.bases(manifest), columns=[], filter=filter)
    fragments = list(manifest.fragments)
    kept = sum(scan.count(fragment) for fragment in fragments)
    return estimated_selectivity([(scan, fragment) for fragment in fragments]), kept / ROWS


@pytest.mark.parametrize(
    "filter",
    [
        "mixed < 10",
        "mixed < 500",
        "mixed >= 0",
        "text = 'word 3'",
        "sorted < 60000",
        "sorted >= 20000 AND sorted < 190000",
        "half IS NULL",
        "half >= 0 AND mixed < 100",
        "mixed IN (1, 2, 3) OR text = 'word 4'",
    ],
)
def test_estimates_are_near_and_not_low(uri: str, filter: str) -> None:
    share, truth = estimate(uri, filter)
    assert truth <= share <= min(1.0, truth + 0.6)


@pytest.mark.parametrize("filter", ["sorted = 7", "mixed = 5000", "sorted BETWEEN 101 AND 130"])
def test_what_no_place_shows_may_be_in_others(uri: str, filter: str) -> None:
    share, truth = estimate(uri, filter)
    assert truth < 0.001
    assert 3 / 128 <= share <= 0.25


def test_a_part_of_a_sorted_column_is_seen_as_what_it_is(uri: str) -> None:
    """Its matches are in few places: of these the sample has seen some, and so it is unsure."""
    mixed, truth_of_mixed = estimate(uri, "mixed < 50")
    part, truth_of_part = estimate(uri, "sorted >= 100000 AND sorted < 110000")
    assert truth_of_mixed == pytest.approx(truth_of_part, abs=0.005)
    assert mixed < part


def test_all_rows_without_a_filter(uri: str) -> None:
    assert estimate(uri, None) == (1.0, 1.0)


def test_few_bytes_are_read(uri: str) -> None:
    location = TableLocation(uri, {})
    manifest = location.latest()
    assert manifest is not None
    fragments = list(manifest.fragments)
    scan = Scan.of(manifest.schema, location.bases(manifest), columns=[], filter="text = 'word 3'")
    # Small files that are open already are not read again.
    shared.clear()
    before = READS.counts
    estimated_selectivity([(scan, fragment) for fragment in fragments])
    sampled = READS.counts - before
    shared.clear()
    before = READS.counts
    for fragment in fragments:
        scan.count(fragment)
    whole = READS.counts - before
    assert sampled.requests <= 16 * 5
    assert len(fragments) <= 16 or sampled.num_bytes < whole.num_bytes / 2


def test_no_rows(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"a": pa.array([], pa.int64())}), uri)
    location = TableLocation(uri, {})
    manifest = location.latest()
    assert manifest is not None
    scan = Scan.of(manifest.schema, location.bases(manifest), columns=[], filter="a > 1")
    assert estimated_selectivity([(scan, fragment) for fragment in manifest.fragments]) == 1.0


def test_a_filter_that_fails_says_so(uri: str) -> None:
    with pytest.raises(InvalidInputError, match=r"zero|divi"):
        estimate(uri, "1 / (mixed - mixed) > 0")


@pytest.mark.parametrize(
    ("columns", "least", "most"),
    [(["text"], 100, 170), (["sorted"], 1, 1), (["mixed"], 5, 10), (["text", "sorted"], 1, 1), (["half"], 1, 3)],
)
def test_how_many_rows_are_alike(uri: str, columns: list[str], least: float, most: float) -> None:
    location = TableLocation(uri, {})
    manifest = location.latest()
    assert manifest is not None
    scan = Scan.of(manifest.schema, location.bases(manifest), columns=columns)
    assert least <= rows_of_a_group([(scan, fragment) for fragment in manifest.fragments]) <= most
