"""Row ids and row versions that the reference library keeps in data files, because they are too many to list."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark._proto import table_pb2
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.table.dataset import Dataset
from lance_spark.table.manifests.features import FeatureFlag
from lance_spark.table.rows.fragment import FragmentList

SYSTEM = ["a", "b", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


@pytest.fixture(params=["2.1", "2.2"])
def uri(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """1,000 rows, updated three times and compacted: ids in no order, in the files."""
    uri = str(tmp_path / "t")
    rows = pa.table({"a": range(1000), "b": [f"row {value}" for value in range(1000)]})
    lance.write_dataset(rows, uri, enable_stable_row_ids=True, data_storage_version=request.param)
    lance.dataset(uri).update_config({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "16"})
    for number in range(3):
        lance.dataset(uri).update({"b": f"'turn {number}'"}, where=f"a % {number + 3} = 1")
    lance.dataset(uri).optimize.compact_files(materialize_deletions_threshold=0.0)
    (message,) = lance_spark.open(uri).fragments.messages
    assert message.HasField("column_row_ids")
    assert not message.HasField("inline_row_ids")
    return uri


def both(uri: str, filter: str | None = None) -> list[dict[str, Any]]:
    mine = lance_spark.open(uri).to_table(columns=SYSTEM, filter=filter).to_pylist()
    assert lance.dataset(uri).scanner(columns=SYSTEM, filter=filter).to_table().to_pylist() == mine
    found: list[dict[str, Any]] = mine
    return found


def test_they_are_read(uri: str) -> None:
    found = both(uri)
    assert {row["_rowid"] for row in found} == set(range(1000))
    assert {row["_rowid"] for row in found if row["a"] != row["_rowid"]} == set()
    assert {row["_row_last_updated_at_version"] for row in found} == {1, 3, 4, 5}
    lance_spark.open(uri).delete("a % 7 = 3")
    assert len(both(uri, "a > 500")) == sum(value % 7 != 3 for value in range(501, 1000))
    assert sorted(lance_spark.open(uri).to_table(filter="_rowid in (5, 700)")["a"].to_pylist()) == [5, 700]
    assert [row["_rowid"] for row in lance_spark.open(uri).take([3, 800], columns=["_rowid"]).to_pylist()] == [
        row["_rowid"] for row in lance.dataset(uri).take([3, 800], columns=["_rowid"]).to_pylist()
    ]


def test_writers_of_both_libraries_take_turns(uri: str) -> None:
    before = {row["a"]: row for row in both(uri)}
    version = lance_spark.open(uri).version
    assert lance_spark.open(uri).update({"b": "'ours'"}, "a % 10 = 3").version == version + 1
    manifest = lance_spark.open(uri).manifest
    assert manifest.reader_flags & manifest.writer_flags & FeatureFlag.SPILLED_ROW_LINEAGE
    lance.dataset(uri).update({"b": "'theirs'"}, where="a % 100 = 4")
    lance_spark.open(uri).merge(pa.table({"a": [5, 2000], "b": ["merged", "new"]}), "a")
    lance_spark.write(pa.table({"a": [3000], "b": ["appended"]}), uri, mode="append")
    found = {row["a"]: row for row in both(uri)}
    expected = {value: dict(row) for value, row in before.items()}
    for value, row in expected.items():
        if value % 10 == 3:
            row.update(b="ours", _row_last_updated_at_version=version + 1)
        if value % 100 == 4:
            row.update(b="theirs", _row_last_updated_at_version=version + 2)
    expected[5].update(b="merged", _row_last_updated_at_version=version + 3)
    for number, (value, text) in enumerate([(2000, "new"), (3000, "appended")]):
        made = version + 3 + number
        lineage = dict.fromkeys(SYSTEM[3:], made)
        expected[value] = {"a": value, "b": text, "_rowid": 1000 + number, **lineage}
    assert found == expected
    lance.dataset(uri).optimize.compact_files(materialize_deletions_threshold=0.0)
    assert {row["a"]: row for row in both(uri)} == expected
    lance_spark.open(uri).delete("a >= 900")
    lance_spark.open(uri).compact()
    assert {row["a"]: row for row in both(uri)} == {a: row for a, row in expected.items() if a < 900}
    assert not lance_spark.open(uri).manifest.reader_flags & FeatureFlag.SPILLED_ROW_LINEAGE


def patched(dataset: Dataset, **marks: bool) -> Dataset:
    messages = []
    for message in dataset.fragments.messages:
        copy = table_pb2.DataFragment()
        copy.CopyFrom(message)
        for name, value in marks.items():
            copy.ClearField(name)  # type: ignore[arg-type]
            if value:
                getattr(copy, name).SetInParent()
        messages.append(copy)
    return Dataset(dataset.location, replace(dataset.manifest, fragments=FragmentList(messages)))


def test_marks_that_lie(uri: str, tmp_path: Path) -> None:
    dataset = lance_spark.open(uri)
    with pytest.raises(CorruptFileError, match="has none"):
        patched(dataset, column_row_ids=False).to_table(columns=["_rowid"])
    unknown = patched(dataset, column_created_at_versions=False).to_table(columns=["_row_created_at_version"])
    assert set(unknown.column(0).to_pylist()) == {1}
    plain = str(tmp_path / "plain")
    lance.write_dataset(pa.table({"a": [1, 2]}), plain, enable_stable_row_ids=True)
    lying = patched(lance_spark.open(plain), inline_row_ids=False, column_row_ids=True)
    with pytest.raises(CorruptFileError, match="_rowid"):
        lying.to_table(columns=["_rowid"])


def test_ids_in_files_of_their_own_are_refused(tmp_path: Path) -> None:
    """`external_row_ids` is in the format, but no release has written it."""
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": [1, 2]}), uri, enable_stable_row_ids=True)
    dataset = patched(lance_spark.open(uri), inline_row_ids=False, external_row_ids=True)
    with pytest.raises(UnsupportedFeatureError, match="row_ids"):
        dataset.to_table()


def test_many_ids_in_the_manifest_stay_there(tmp_path: Path) -> None:
    """We never move them into files; other readers take both."""
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": range(3000), "b": ["x"] * 3000}), uri, enable_stable_row_ids=True)
    generator = np.random.default_rng(1)
    for _ in range(3):
        chosen = ", ".join(map(str, generator.choice(3000, 900, replace=False)))
        lance_spark.open(uri).update({"b": "'y'"}, f"a in ({chosen})")
    lance_spark.open(uri).compact()
    assert {row["a"]: row["_rowid"] for row in both(uri)} == {value: value for value in range(3000)}
