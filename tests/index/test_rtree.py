"""RTREE indexes: built by either library, used by both, always with the answers of a scan."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.index.rtree import Boxes, united
from lance_spark.storage.cache import shared
from lance_spark.table.dataset import Dataset
from tests.index.comparisons import ID, check, ids
from tests.support.expr.geometries import EXTENSION, path, point, wkb
from tests.support.index.geometry_rows import WHERE, geometry, rows
from tests.support.index.requests import KeptStore, counted

NAN = float("nan")


OPERATIONS: dict[str, Callable[[Dataset], object]] = {
    "delete": lambda dataset: dataset.delete("id % 5 = 1"),
    "update": lambda dataset: dataset.update({"pt": {"x": 1.0, "y": 2.0}, "g": point(1, 2)}, "id % 7 = 3"),
    "merge": lambda dataset: dataset.merge(rows(290, 20), "id"),
    "compact": lambda dataset: dataset.compact(target_rows_per_fragment=1000),
    "deferred compaction": lambda dataset: dataset.compact(target_rows_per_fragment=1000, defer_index_remap=True),
    "append": lambda dataset: lance_spark.write(rows(400, 50), dataset.location.uri, mode="append"),
}


def build(uri: str, builder: str) -> None:
    for column in ("pt", "g"):
        if builder == "ours":
            lance_spark.open(uri).create_scalar_index(column, "rtree", page_size=16)
        else:
            lance.dataset(uri).create_scalar_index(column, "RTREE")


def check_both(uri: str, query: str, index: str) -> int:
    """The number of rows: of a scan, of ours and of the reference's index."""
    scanned = check(uri, query, index=index)
    assert ids(lance.dataset(uri).to_table(columns=[ID], filter=query)) == scanned
    return len(scanned)


@pytest.mark.slow
@pytest.mark.parametrize("builder", ["ours", "reference"])
@pytest.mark.parametrize("stable", [False, True])
def test_answers_are_those_of_a_scan_after_each_operation(
    tmp_path: Path, builder: str, stable: bool, warnings: list[str]
) -> None:
    start = tmp_path / "start"
    lance.write_dataset(rows(0, 300), str(start), max_rows_per_file=100, enable_stable_row_ids=stable)
    build(str(start), builder)
    assert {item["type"] for item in lance_spark.open(start).list_indices()} == {"RTree"}
    # Tables with stable row ids cannot defer.
    operations = [name for name in OPERATIONS if not (stable and name.startswith("deferred"))]
    for number, operation in enumerate(operations):
        uri = str(tmp_path / str(number))
        shutil.copytree(start, uri)
        OPERATIONS[operation](lance_spark.open(uri))
        for step in ("", "optimize"):
            if step:
                lance_spark.open(uri).optimize_indices()
            for column in ("pt", "g"):
                query = f"st_intersects({column}, {WHERE})"
                assert check_both(uri, query, f"{column}_idx") > 30, (operation, step)
        check(uri, "g IS NULL", index="g_idx")
        check(uri, f"st_intersects(g, {WHERE}) AND id < 50 OR st_intersects(g, {WHERE}) AND g IS NOT NULL")
        check(uri, f"NOT st_intersects(g, {WHERE})")
        check(uri, f"st_within(g, {WHERE})")
        found = lance_spark.open(uri)
        assert "\nindex:" not in found.explain("pt.x < 10")
    assert warnings == []


def test_values_of_before_in_segments_that_pylance_merged(tmp_path: Path, warnings: list[str]) -> None:
    """It leaves them there, where rows keep their ids: rows have several boxes, or are null and have one."""
    uri = str(tmp_path)
    lance.write_dataset(rows(0, 300), uri, max_rows_per_file=100, enable_stable_row_ids=True)
    lance.dataset(uri).create_scalar_index("g", "RTREE")
    values: dict[int, bytes | None] = dict(enumerate(map(geometry, range(300))))
    nulls = [number for number, value in values.items() if value is None]
    new = {**dict.fromkeys(nulls[:5], point(3, 3)), 1: None, 2: None, 5: point(90, 90), 6: wkb(2, path([]))}
    changed = rows(0, 300).filter(pa.array([number in new for number in range(300)]))
    changed = changed.set_column(2, changed.schema.field("g"), pa.array([new[id_] for id_ in changed[ID].to_pylist()]))
    lance.dataset(uri).merge_insert(ID).when_matched_update_all().execute(changed)
    lance.dataset(uri).optimize.optimize_indices()
    values |= new
    expected = [number for number in range(300) if values[number] is None]
    intersecting = f"st_intersects(g, {WHERE})"
    for _ in range(2):
        assert check(uri, "g IS NULL", index="g_idx") == expected
        assert check(uri, "g IS NOT NULL") == sorted(values.keys() - set(expected))
        found = check(uri, intersecting, index="g_idx")
        assert {*nulls[:5]} <= {*found}
        assert not {1, 2, 5, 6} & {*found}
        lance_spark.write(rows(300, 20), uri, mode="append")
        lance_spark.open(uri).delete("id >= 300")
        lance_spark.write(rows(400, 1), uri, mode="append")
        lance_spark.open(uri).optimize_indices()
        values[400] = geometry(400)
    assert "g_idx" in lance_spark.open(uri).explain(intersecting)
    assert all("a row has several boxes" in warning for warning in warnings)


def test_pages_are_those_of_pylance(tmp_path: Path) -> None:
    rng = random.Random(3)
    values = pa.array([point(rng.uniform(0, 9), rng.uniform(0, 9)) for _ in range(9000)])
    lance.write_dataset(
        pa.table([values], schema=pa.schema([pa.field("g", pa.binary(), metadata=EXTENSION)])), tmp_path
    )
    files = []
    for builder in ("ours", "reference"):
        dataset = lance_spark.open(tmp_path)
        if builder == "ours":
            dataset.create_scalar_index("g", "RTREE", name=builder)
        else:
            lance.dataset(tmp_path).create_scalar_index("g", "RTREE", name=builder)
        (entry,) = [item for item in lance_spark.open(tmp_path).list_indices() if item["name"] == builder]
        folder = tmp_path / "_indices" / entry["uuid"]
        reader = LanceFileReader(str(folder / "page_data.lance"))
        files.append((reader.metadata(), reader.read_all().to_table()))
    (ours, our_pages), (theirs, their_pages) = files
    assert ours.schema == theirs.schema
    assert ours.schema.metadata == theirs.schema.metadata
    assert our_pages["id"].to_pylist()[-3:] == their_pages["id"].to_pylist()[-3:] == [0, 1, 2]
    boxes = [sorted(map(str, pages["bbox"].to_pylist()[:9000])) for pages in (our_pages, their_pages)]
    assert boxes[0] == boxes[1]


def test_places_that_are_no_numbers(tmp_path: Path) -> None:
    infinite = float("inf")
    values = [point(NAN, NAN), point(NAN, 1), point(infinite, 1), wkb(2, path([(1, 1), (NAN, 1), (5, 5)])), None]
    values += [wkb(2, path([(1, 1), (2, 2), (NAN, 1)])), wkb(7), point(1e308, -1e308), point(-1e308, 1e308)]
    schema = pa.schema([pa.field(ID, pa.int64()), pa.field("g", pa.binary(), metadata=EXTENSION)])
    lance_spark.write(pa.table([pa.array(range(9)), pa.array(values)], schema=schema), str(tmp_path))
    lance_spark.open(tmp_path).create_scalar_index("g", "RTREE", page_size=2)
    for shape, found in {
        "POLYGON((0 0, 9 0, 9 9, 0 9, 0 0))": [5],
        "POINT(1 1)": [5],
        "POINT(1e308 -1e308)": [7],
        "POINT EMPTY": [],
        "MULTIPOINT((1e308 -1e308), (-1e308 1e308), (-1.7e308 1.7e308))": [7, 8],
    }.items():
        assert (
            check(str(tmp_path), f"st_intersects(g, st_geomfromtext('{shape}'))", reference="", index="g_idx") == found
        )
    assert check(str(tmp_path), "g IS NULL", reference="", index="g_idx") == [4]
    assert check(str(tmp_path), "g IS NOT NULL", reference="", index="g_idx") == [0, 1, 2, 3, 5, 6, 7, 8]


def test_columns_without_a_geometry_and_damaged_values_are_refused(tmp_path: Path) -> None:
    lance_spark.write(pa.table({"t": ["x"], "b": [b"\x01\x02"], "n": [b""], "v": [None]}), str(tmp_path))
    dataset = lance_spark.open(tmp_path)
    with pytest.raises(InvalidInputError, match="'t' is of type string, which an index of kind RTREE does not support"):
        dataset.create_scalar_index("t", "RTREE")
    with pytest.raises(InvalidInputError, match="a geometry of 2 bytes"):
        dataset.create_scalar_index("b", "RTREE")
    for size in (0, 1):
        with pytest.raises(InvalidInputError, match="page_size"):
            dataset.create_scalar_index("b", "RTREE", page_size=size)


@pytest.mark.slow
def test_damaged_files_cost_a_warning(tmp_path: Path, warnings: list[str]) -> None:
    uri = str(tmp_path)
    lance.write_dataset(rows(0, 300), uri, max_rows_per_file=100)
    lance_spark.open(uri).create_scalar_index("g", "rtree")
    query = f"st_intersects(g, {WHERE})"
    expected = check(uri, query, index="g_idx")
    (file,) = tmp_path.glob("_indices/*/page_data.lance")
    whole = file.read_bytes()
    rng = random.Random(5)
    for _ in range(40):
        damaged = bytearray(whole)
        # The boxes have no check sum; what describes them has to fit.
        damaged[rng.randrange(len(whole) - 700, len(whole))] ^= 1 << rng.randrange(8)
        file.write_bytes(bytes(damaged))
        shared.clear()
        assert ids(lance_spark.open(uri).to_table(filter=query, columns=[ID])) == expected
    file.unlink()
    shared.clear()
    assert ids(lance_spark.open(uri).to_table(filter=query, columns=[ID])) == expected
    assert "g_idx" in warnings[-1]


def scattered(path: Path, builder: str, count: int, page_size: int) -> npt.NDArray[np.float64]:
    """Points at random places of a square of 200 x 200: float64[2, n]."""
    places = np.random.default_rng(9).random((2, count)) * 200
    points = pa.StructArray.from_arrays([pa.array(places[0]), pa.array(places[1])], ["x", "y"])
    field = pa.field("g", points.type, metadata={**EXTENSION, "ARROW:extension:name": "geoarrow.point"})
    schema = pa.schema([pa.field(ID, pa.int64()), field])
    lance.write_dataset(pa.table([pa.array(range(count)), points], schema=schema), str(path))
    if builder == "ours":
        lance_spark.open(path).create_scalar_index("g", "RTREE", page_size=page_size)
    else:
        lance.dataset(path).create_scalar_index("g", "RTREE")
    return places


def num_within(places: npt.NDArray[np.float64], x: float, y: float, half: float) -> int:
    return int(((np.abs(places[0] - x) <= half) & (np.abs(places[1] - y) <= half)).sum())


def around(x: float, y: float, half: float) -> str:
    corners = ((x - half, y - half), (x + half, y - half), (x + half, y + half), (x - half, y + half))
    text = ", ".join(f"{one} {other}" for one, other in (*corners, corners[0]))
    return f"st_intersects(g, ST_GeomFromText('POLYGON(({text}))'))"


@pytest.mark.slow
@pytest.mark.parametrize("builder", ["ours", "reference"])
def test_a_query_reads_the_pages_that_meet_it(tmp_path: Path, builder: str) -> None:
    places = scattered(tmp_path, builder, 200_000, 4096)
    (file,) = tmp_path.glob("_indices/*/page_data.lance")
    dataset, store = counted(tmp_path, KeptStore)

    def index_bytes(query: str) -> int:
        store.reset()
        explained = dataset.explain(query)
        assert "g_idx (RTREE)" in explained
        return store.reset().bytes_read

    first = index_bytes(around(50.5, 50.5, 2))
    assert 0 < first < file.stat().st_size / 3
    assert index_bytes(around(50.5, 50.5, 1)) == 0
    # Of another part only its own pages are new.
    assert 0 < index_bytes(around(150.5, 150.5, 2)) < first
    assert index_bytes(around(100, 100, 200)) > file.stat().st_size / 2
    assert dataset.count_rows(around(50.5, 50.5, 2)) == num_within(places, 50.5, 50.5, 2) > 0


@pytest.mark.parametrize("page", range(0, 157, 39))
def test_a_wrong_page_box_is_found_when_it_is_read(
    tmp_path: Path, page: int, monkeypatch: pytest.MonkeyPatch, warnings: list[str]
) -> None:
    """Each query that reads the page, or that sees the boxes above change, is answered by a scan."""

    def smaller(boxes: Boxes, size: int) -> Boxes:
        found = united(boxes, size)
        if len(boxes) == 10_000 and size == 64:
            found[page, 2] = (found[page, 0] + found[page, 2]) / 2
        return found

    monkeypatch.setattr("lance_spark.index.builders.rtree.united", smaller)
    places = scattered(tmp_path, "ours", 10_000, 64)
    (file,) = tmp_path.glob("_indices/*/page_data.lance")
    box = LanceFileReader(str(file)).read_all().to_table()["bbox"][10_000 + page].as_py()
    shared.clear()
    x, y = box["xmin"], (box["ymin"] + box["ymax"]) / 2
    found = lance_spark.open(tmp_path).count_rows(around(x, y, 5))
    assert found == num_within(places, x, y, 5) > 0
    assert "a page is not as large as what is in it" in warnings[-1]
