"""The order of clustered rows: of every type, with nulls, NaN and -0.0, in memory and over a temporary file."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.table.maintenance.clustering import sorted_rows
from lance_spark.table.maintenance.clustering.layout import column_names
from lance_spark.table.reading.index_plan import index_plan

NAN = float("nan")
COLUMNS: dict[str, pa.Array] = {
    "int": pa.array([5, None, -3, 0, 5, -(2**63), 2**63 - 1], pa.int64()),
    "unsigned": pa.array([5, None, 2**64 - 1, 0, 5, 1, 2], pa.uint64()),
    "float": pa.array([1.5, None, -1.5, NAN, -0.0, 0.0, -math.inf], pa.float64()),
    "float32": pa.array([1.5, None, -1.5, NAN, math.inf, 0.0, -2.0], pa.float32()),
    "bool": pa.array([True, None, False, True, False, None, True]),
    "text": pa.array(["b", None, "", "a", "aa", "é", "Z"]),
    "bytes": pa.array([b"b", None, b"", b"\xff", b"aa", b"\x00", b"Z"]),
    "fixed": pa.array([b"bb", None, b"aa", b"\xff\x00", b"aa", b"\x00\x00", b"Z1"], pa.binary(2)),
    "decimal": pa.array([Decimal("1.10"), None, Decimal("-2.00"), Decimal("9.99"), Decimal("1.09"), None, Decimal(0)]),
    "date": pa.array([dt.date(2020, 1, day) if day else None for day in (5, 0, 1, 9, 2, 3, 4)]),
    "time": pa.array([dt.time(hour) if hour else None for hour in (5, 0, 1, 9, 2, 3, 4)], pa.time64("us")),
    "timestamp": pa.array([dt.datetime(1960 + n, 1, 1) if n else None for n in (5, 0, 1, 9, 2, 3, 40)]),
    "zoned": pa.array(
        [dt.datetime(1960 + n, 1, 1) if n else None for n in (5, 0, 1, 9, 2, 3, 40)], pa.timestamp("us", "UTC")
    ),
}


def rank(value: Any) -> tuple[Any, ...]:
    """The key of Python's own sort: nulls first, NaN last."""
    if value is None:
        return (0,)
    return (2,) if isinstance(value, float) and math.isnan(value) else (1, value)


@pytest.mark.parametrize("name", list(COLUMNS))
@pytest.mark.parametrize("descending", [False, True])
def test_each_type_has_the_order_of_its_values(name: str, descending: bool) -> None:
    rows = pa.table({"c": COLUMNS[name], "id": range(7)})
    table = lance_spark.write(rows, f"memory://order-{name}-{descending}")
    made = table.optimize.cluster([f"c{' DESC' * descending}"], "sort").to_table()
    values = list(zip(COLUMNS[name].to_pylist(), range(7), strict=True))
    expected = sorted(values, key=lambda pair: rank(pair[0]), reverse=False)
    if descending:
        expected = sorted(values, key=lambda pair: rank(pair[0]), reverse=True)
        # A reversed sort of Python keeps the order of equal values, too.
    assert made["id"].to_pylist() == [number for _, number in expected]


@pytest.fixture(params=[128 << 20, 200_000], ids=["in memory", "in a file"])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_rows, "PIECE_BYTES", request.param)
    monkeypatch.setattr(sorted_rows, "_CHUNK_BYTES", min(request.param, sorted_rows._CHUNK_BYTES))


def many(num_rows: int = 30_000) -> pa.Table:
    rng = np.random.default_rng(7)
    skewed = np.where(rng.random(num_rows) < 0.7, 3, rng.integers(0, 50, num_rows))
    return pa.table(
        {
            "k": pa.array(skewed, mask=rng.random(num_rows) < 0.1),
            "f": rng.normal(size=num_rows),
            "s": pa.array([{"t": f"t{value}"} if value % 9 else None for value in rng.integers(0, 500, num_rows)]),
            "l": pa.array([[value] * (value % 3) for value in range(num_rows)]),
            "id": range(num_rows),
        }
    )


def test_a_sort_is_the_one_of_arrow(tmp_path: Path, pieces: None) -> None:
    rows = many()
    table = lance_spark.write(rows, tmp_path / "t", max_rows_per_file=4_000)
    made = table.optimize.cluster(["k", "s.t DESC", "f"], "sort").to_table().to_pylist()
    values = rows.to_pylist()

    def text(row: dict[str, Any]) -> Any:
        return rank(row["s"]["t"] if row["s"] else None)

    expected = sorted(values, key=lambda row: row["f"])
    expected = sorted(expected, key=text, reverse=True)
    expected = sorted(expected, key=lambda row: rank(row["k"]))
    assert [row["id"] for row in made] == [row["id"] for row in expected]
    assert sorted(made, key=lambda row: row["id"]) == values


@pytest.mark.parametrize("curve", ["hilbert", "zorder"])
def test_no_row_is_lost_on_a_curve(tmp_path: Path, pieces: None, curve: str) -> None:
    rows = many()
    table = lance_spark.write(rows, tmp_path / "t", max_rows_per_file=4_000)
    made = table.optimize.cluster(["k", "s.t", "f"], curve)
    assert made.to_table().sort_by("id").to_pylist() == rows.to_pylist()


def test_a_box_reads_little_more_than_its_zones(tmp_path: Path) -> None:
    """Rows of zones that may hold a row of a box over two columns, against zones that do hold one."""
    rng = np.random.default_rng(11)
    rows = pa.table({"x": rng.integers(0, 10**6, 200_000), "y": rng.normal(size=200_000), "id": range(200_000)})
    table = lance_spark.write(rows, tmp_path / "t", max_rows_per_file=50_000)
    for column in ("x", "y"):
        table = table.create_index(column, "ZONEMAP", rows_per_zone=512)
    box = "x >= 300000 AND x < 500000 AND y >= 0 AND y < 0.7"
    before = rows_read(table, box)
    table = table.optimize.cluster(["x", "y"])
    made = table.to_table()
    x, y = made["x"].to_numpy(), made["y"].to_numpy()
    chosen = np.flatnonzero((x >= 300_000) & (x < 500_000) & (y >= 0) & (y < 0.7))
    zones = len(np.unique(chosen // 512)) * 512
    assert len(chosen) == table.count_rows(box) > 0
    assert before == 200_000
    assert rows_read(table, box) <= 1.3 * zones
    assert zones <= 2.5 * len(chosen)


def rows_read(table: Any, condition: str) -> int:
    """The rows that indexes leave to be read."""
    matches = index_plan(table.plan(["id"], condition), table.manifest).matches
    return sum(
        len(matches[message.id].offsets) if message.id in matches else message.physical_rows
        for message in table.fragments.messages
    )


@pytest.mark.parametrize(
    ("columns", "curve", "error"),
    [
        (["nothing"], "hilbert", NotFoundError),
        (["l"], "hilbert", InvalidInputError),
        (["s"], "hilbert", InvalidInputError),
        (["id", "id"], "hilbert", InvalidInputError),
        ([], "hilbert", InvalidInputError),
        (["id"], "peano", InvalidInputError),
        (["id DESC"], "zorder", NotFoundError),
        (None, "hilbert", InvalidInputError),
    ],
)
def test_what_rows_cannot_be_ordered_by(columns: Any, curve: str, error: type[Exception]) -> None:
    table = lance_spark.write(many(10), f"memory://refused-{columns}-{curve}")
    with pytest.raises(error):
        table.optimize.cluster(columns, curve)
    assert table.newest().version == table.version


def test_the_property_names_the_columns() -> None:
    table = lance_spark.write(many(100), "memory://clustering-property")
    make: Callable[[str], Any] = lambda text: table.update_config({"lance.clustering.columns": text})  # noqa: E731
    for wrong in ("nothing", "id,,f", "l", "id, id"):
        with pytest.raises((InvalidInputError, NotFoundError)):
            make(wrong)
    made = make("f").optimize.cluster()
    assert made.to_table()["f"].to_pylist() == sorted(many(100)["f"].to_pylist())
    assert column_names("a, `b,c`.d") == ["a", "`b,c`.d"]
