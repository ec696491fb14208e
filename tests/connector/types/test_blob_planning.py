"""Plans of scans that return the bytes of blobs count them: for Spark's statistics, for tasks, and for inline reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyroaring
import pytest

import lance_spark
from lance_spark import blob_field
from lance_spark.errors import InvalidInputError
from lance_spark.partitioned.dataset import create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.spark.blobs.columns import in_target, with_ranges
from lance_spark.spark.partitions import SizedFragment
from lance_spark.spark.plugin.datasource import LanceDataSource
from lance_spark.storage.meter import READS
from lance_spark.table.reading import selectivity
from lance_spark.table.reading.scan import Scan
from tests.support.connector.scan_requests import answered, loaded

PACKED, INLINE = 100_000, 1_000
"""Sizes of values: in a sidecar, and in the data file."""


def rows(first_id: int, values: list[bytes | None]) -> pa.Table:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("p", pa.string()), blob_field("img")])
    ids = range(first_id, first_id + len(values))
    return pa.table({"id": ids, "p": [f"p{number % 2}" for number in ids], "img": values}, schema=schema)


@pytest.fixture(params=["plain", "partitioned"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    uri = str(tmp_path / "t")
    values = [b"x" * PACKED, b"y" * INLINE, None, b""] * 20
    if request.param == "plain":
        lance_spark.write(rows(0, values), uri)
    else:
        by = [PartitionBy("p", ("p",), Identity())]
        create_partitioned_dataset(uri, rows(0, []).schema, by).append(rows(0, values))
    return uri


def planned(uri: str, *names: str, **more: Any) -> dict[str, Any]:
    return asked(uri, *names, **more)[0]


def asked(uri: str, *names: str, session: dict[str, str] | None = None, **more: Any) -> tuple[dict[str, Any], int]:
    """The plan of a scan of some columns, and the number of its tasks."""
    table = loaded(uri)
    known = [*table["schema"]["fields"], *(as_field(column) for column in table["metadata_columns"])]
    wanted = {"type": "struct", "fields": [field for field in known if field["name"] in names]}
    inline = {"inline_bytes": "0", **(session or {})}
    return answered("scan.plan", inline, handle=table["handle"], columns=wanted, **more)


def as_field(column: dict[str, Any]) -> dict[str, Any]:
    return {"name": column["name"], "type": column["type"], "nullable": True, "metadata": {}}


def test_planned_size_has_the_bytes_of_blobs_that_are_read(uri: str) -> None:
    num_bytes = 20 * (PACKED + INLINE)
    assert num_bytes <= planned(uri, "id", "img__blob_bytes")["size_bytes"] < num_bytes * 1.01
    assert planned(uri, "id", "img")["size_bytes"] < 25_000 + 20 * INLINE
    handling = {"lance.blob_handling": "binary"}
    lance_spark.open(uri).update_config(handling)
    assert num_bytes <= planned(uri, "id", "img")["size_bytes"] < num_bytes * 1.01
    assert planned(uri, "id")["size_bytes"] < 25_000 + 20 * INLINE


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_values_in_data_files_do_not_count_for_other_columns(tmp_path: Path, version: str) -> None:
    uri, count = str(tmp_path / "t"), 6000
    lance_spark.write(rows(0, [b"x" * INLINE] * count), uri, file_format_version=version)
    assert count * 8 <= planned(uri, "id")["size_bytes"] < count * 100
    assert count * 8 <= planned(uri, "id", "img")["size_bytes"] < count * 100
    assert count * INLINE <= planned(uri, "id", "img__blob_bytes")["size_bytes"] < count * (INLINE + 100)
    before = READS.counts
    planned(uri, "id")
    assert (READS.counts - before).requests <= 1  # The table itself; the averages are remembered.


def test_tasks_are_cut_by_the_bytes_of_blobs(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(0, [b"x" * PACKED] * 40), uri)
    options = {"target_partition_bytes": str(10 * PACKED)}
    assert asked(uri, "img__blob_bytes", options=options)[1] == 4
    assert asked(uri, "img", options=options)[1] == 1


def test_blobs_are_not_read_inline_by_the_planner(uri: str) -> None:
    session = {"inline_bytes": str(20 * PACKED // 2)}
    assert planned(uri, "img", session=session)["is_inline"]
    assert not planned(uri, "img__blob_bytes", session=session)["is_inline"]


def test_planned_size_of_parts_of_blobs(uri: str) -> None:
    part = {"binary_ranges": {"img__blob_bytes": [INLINE - 10, 30]}}
    assert 20 * (30 + 10) <= planned(uri, "img__blob_bytes", **part)["size_bytes"] < 25_000


def test_sizes_of_large_tables_are_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectivity, "_BLOCKS", 8)
    random = np.random.default_rng(1)
    sizes = random.integers(0, 2000, 4000)
    lance_spark.write(rows(0, [bytes(int(size)) for size in sizes]), str(tmp_path / "t"))
    before = READS.counts
    found = planned(str(tmp_path / "t"), "img__blob_bytes")["size_bytes"]
    assert (READS.counts - before).num_bytes < sizes.sum() / 10
    assert sizes.sum() * 0.9 < found < sizes.sum() * 1.6


def test_index_candidates_count_their_own_blobs_only() -> None:
    fragment = SizedFragment(0, 10_000, 50_000 + 10_000 * PACKED, blob_bytes=10_000 * PACKED)
    found = fragment.only(pyroaring.BitMap([5, 9000]))
    assert 2 * PACKED <= (found.size_bytes or 0) < 2 * PACKED + 25_000
    assert fragment.part(0, 5000).blob_bytes == 5000 * PACKED


def test_plug_in_cuts_tasks_by_the_bytes_of_blobs(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(0, [b"x" * PACKED] * 40), uri)
    given = {"path": uri, "target_partition_bytes": str(10 * PACKED)}
    for handling, expected in (("binary", 4), ("descriptions", 1)):
        source = LanceDataSource({**given, "blob_handling": handling})
        assert len(list(source.reader(source.schema()).partitions())) == expected


def test_parts_of_other_binary_columns_are_cut(tmp_path: Path) -> None:
    values = [b"0123456789", None, b"", b"01", b"0123"]
    dataset = lance_spark.write(pa.table({"b": values, "id": range(5)}), str(tmp_path / "t"))
    scan = Scan.of(dataset.lance_schema, dataset.location.bases(dataset.manifest), columns=["b", "id"])
    target = with_ranges(pa.schema([("b", pa.binary()), ("id", pa.int64())]), {"b": (2, 3)})
    (batch,) = in_target(scan.read(dataset.manifest.fragments), target, scan)
    assert batch["b"].to_pylist() == [b"234", None, b"", b"", b"23"]
    for wrong in ({"id": (0, 1)}, {"b": (1,)}, {"b": (-1, 2)}):
        with pytest.raises(InvalidInputError, match="is no part of"):
            with_ranges(target, wrong)
