"""Fixed-size lists of structs inside of lists, which the reference library cannot read back either."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import UnsupportedFeatureError

PAIRS = pa.list_(pa.struct([("a", pa.int32()), ("b", pa.float64())]), 2)
PAIR = [{"a": 1, "b": 2.0}, {"a": 3, "b": 4.0}]


def test_write_inside_list_is_refused(tmp_path: Path) -> None:
    table = pa.table({"c": pa.array([[PAIR], None], pa.list_(PAIRS))})
    with pytest.raises(UnsupportedFeatureError, match=r"'c\.item'.*inside of lists or around them; use a list instead"):
        lance_spark.write(table, str(tmp_path / "t"), file_format_version="2.2")
    assert not list(tmp_path.rglob("*.lance"))


def test_read_inside_list_is_refused_where_reference_fails(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = pa.table({"c": pa.array([[PAIR, PAIR], [PAIR]], pa.list_(PAIRS))})
    lance.write_dataset(table, uri, data_storage_version="2.2")
    with pytest.raises(pa.ArrowInvalid, match="Not yet supported FSL"):
        lance.dataset(uri).to_table()
    with pytest.raises(UnsupportedFeatureError, match="fixed-size lists of structs that hold or are held by lists"):
        lance_spark.open(uri).to_table()
