"""A damaged, missing or unknown index costs a warning, never a row."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.indices import IndexConfig

import lance_spark
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.index.files import IndexFile, combined
from lance_spark.storage.cache import shared
from tests.index.comparisons import ID, ids, repeated, write

CONFIGS = {
    "BTREE": IndexConfig("btree", {"zone_size": 50}),
    "BITMAP": "BITMAP",
    "ZONEMAP": IndexConfig("zonemap", {"rows_per_zone": 20}),
    "BLOOMFILTER": IndexConfig("bloomfilter", {"number_of_items": 20, "probability": 0.01}),
    "NGRAM": "NGRAM",
    "LABEL_LIST": "LABEL_LIST",
}
COLUMNS = {"NGRAM": "s", "LABEL_LIST": "l"}
TYPES = tuple(CONFIGS)
CONDITIONS = ("x = 5", "x IN (1, 7)", "x < 4", "x IS NULL", "NOT x = 5", "contains(s, 'word5')", "array_contains(l, 3)")


def indexed(path: Path, index_type: str) -> Path:
    """A table whose index of the given type has several pages, zones or keys; returns the index folder."""
    values = repeated([None, *range(20)], 400, pa.int64())
    lists = pa.array([[number % 5, number % 8] for number in range(400)])
    texts = pa.array([f"word{number % 7}" for number in range(400)])
    dataset = write(str(path), {"x": values, "s": texts, "l": lists})
    dataset.create_scalar_index(COLUMNS.get(index_type, "x"), CONFIGS[index_type], name="damaged")
    (folder,) = (path / "_indices").iterdir()
    return folder


def answers(path: Path, *, use_scalar_index: bool) -> list[list[int]]:
    shared.clear()
    dataset = lance_spark.open(path)
    return [
        ids(dataset.to_table(filter=condition, columns=[ID], use_scalar_index=use_scalar_index))
        for condition in CONDITIONS
    ]


@pytest.mark.parametrize("index_type", TYPES)
def test_missing_files_cost_a_warning(tmp_path: Path, index_type: str, warnings: list[str]) -> None:
    folder = indexed(tmp_path, index_type)
    expected = answers(tmp_path, use_scalar_index=False)
    shutil.rmtree(folder)
    assert answers(tmp_path, use_scalar_index=True) == expected
    assert answers(tmp_path, use_scalar_index=True) == expected
    assert len(warnings) == 1
    assert "index damaged " in warnings[0]
    assert folder.name in warnings[0]


def test_keys_that_fit_into_no_array_cost_a_warning(
    tmp_path: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = write(str(tmp_path), {"s": pa.array([f"word{number % 7}" for number in range(400)])})
    dataset.create_scalar_index("s", "BITMAP", name="damaged")
    # Not touched, so that they take no memory.
    size = 1_200_000_000
    half = pa.StringArray.from_buffers(
        1, pa.py_buffer(np.array([0, size], np.int32)), pa.py_buffer(np.zeros(size, "u1"))
    )
    monkeypatch.setattr(IndexFile, "columns_in_chunks", lambda *_: [pa.chunked_array([half, half])])
    found = lance_spark.open(tmp_path).to_table(filter="s = 'word5'", columns=[ID])
    assert ids(found) == list(range(5, 400, 7))
    assert len(warnings) == 1


@pytest.mark.parametrize("index_type", TYPES)
def test_truncated_files_cost_a_warning(tmp_path: Path, index_type: str, warnings: list[str]) -> None:
    folder = indexed(tmp_path, index_type)
    expected = answers(tmp_path, use_scalar_index=False)
    for file in list(folder.iterdir()):
        data = file.read_bytes()
        for size in (0, 1, 39, len(data) // 2, len(data) - 1):
            file.write_bytes(data[:size])
            warnings.clear()
            assert answers(tmp_path, use_scalar_index=True) == expected, (file.name, size)
            assert warnings, (file.name, size)
        file.write_bytes(data)
    warnings.clear()
    assert answers(tmp_path, use_scalar_index=True) == expected
    assert warnings == []


@pytest.mark.parametrize("index_type", TYPES)
def test_overwritten_bytes_never_raise(tmp_path: Path, index_type: str) -> None:
    """Files have no checksums: a changed value can go unnoticed, but nothing fails."""
    folder = indexed(tmp_path, index_type)
    draw = random.Random(5)
    for file in list(folder.iterdir()):
        data = file.read_bytes()
        for position in [*range(0, len(data), max(1, len(data) // 20)), *range(len(data) - 40, len(data), 3)]:
            changed = bytearray(data)
            changed[position] ^= 1 << draw.randrange(8)
            file.write_bytes(bytes(changed))
            answers(tmp_path, use_scalar_index=True)
        file.write_bytes(data)


@pytest.mark.parametrize("index_type", TYPES)
def test_zeroed_stretches_give_the_answer_of_a_scan(tmp_path: Path, index_type: str, warnings: list[str]) -> None:
    folder = indexed(tmp_path, index_type)
    expected = answers(tmp_path, use_scalar_index=False)
    for file in list(folder.iterdir()):
        data = file.read_bytes()
        for start in range(0, len(data), max(16, len(data) // 12)):
            file.write_bytes(data[:start] + bytes(min(64, len(data) - start)) + data[start + 64 :])
            warnings.clear()
            found = answers(tmp_path, use_scalar_index=True)
            assert found == expected or warnings, (file.name, start)
        file.write_bytes(data)


@pytest.mark.parametrize("index_type", TYPES)
def test_index_of_other_rows_is_not_used(tmp_path: Path, index_type: str, warnings: list[str]) -> None:
    folder = indexed(tmp_path / "large", index_type)
    columns = {"x": repeated([1, 5], 40, pa.int64()), "s": pa.array(["word5"] * 40), "l": pa.array([[3]] * 40)}
    dataset = write(str(tmp_path / "small"), columns)
    dataset.create_scalar_index(COLUMNS.get(index_type, "x"), CONFIGS[index_type])
    (other,) = (tmp_path / "small" / "_indices").iterdir()
    for file in folder.iterdir():
        shutil.copy(file, other / file.name)
    path = tmp_path / "small"
    assert answers(path, use_scalar_index=True) == answers(path, use_scalar_index=False)
    assert warnings


@pytest.mark.parametrize("index_type", ["BTREE", "BITMAP", "LABEL_LIST"])
def test_rows_that_an_exact_answer_invents_are_not_changed(
    tmp_path: Path, index_type: str, warnings: list[str]
) -> None:
    """An index with well-formed answers that are wrong: reads and counts show its rows, statements check each row."""
    values = [5 if number % 50 == 0 else number % 3 for number in range(400)]
    folders = []
    for name, numbers in (("right", values), ("wrong", [*values[1:], values[0]])):
        columns = {"x": pa.array(numbers, pa.int64()), "l": pa.array([[number] for number in numbers])}
        dataset = write(str(tmp_path / name), columns)
        dataset.create_scalar_index(COLUMNS.get(index_type, "x"), CONFIGS[index_type])
        folders += (tmp_path / name / "_indices").iterdir()
    for file in folders[1].iterdir():
        shutil.copy(file, folders[0] / file.name)
    condition = "array_contains(l, 5)" if index_type == "LABEL_LIST" else "x = 5"
    dataset = lance_spark.open(tmp_path / "right")
    # The wrong index answers the question for the row after each right one.
    expected = [number for number in range(400) if values[(number + 1) % 400] == 5]
    assert ids(dataset.to_table(filter=condition, columns=[ID])) == expected
    assert dataset.count_rows(condition) == len(expected)
    assert ids(dataset.to_table(filter=f"{condition} AND {ID} >= 0", columns=[ID])) == expected
    deleted = dataset.delete(condition)
    assert deleted.count_rows() == 400
    assert deleted.update({"x": -1}, condition).count_rows("x = -1", use_scalar_index=False) == 0
    assert warnings == []


def test_index_behind_a_deferred_compaction_is_not_used(tmp_path: Path, warnings: list[str]) -> None:
    """The reference library loses all 15 rows after the second compaction."""
    uri = str(tmp_path)
    dataset = write(uri, {"v": repeated([0, 1, 2, 3], 60, pa.int64())}, rows_per_file=20)
    dataset.create_scalar_index("v", "BTREE")
    dataset.optimize.compact_files(target_rows_per_fragment=30, defer_index_remap=True)
    assert lance_spark.open(uri).count_rows("v = 1") == 15
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=1000)
    assert lance_spark.open(uri).count_rows("v = 1") == 15
    assert lance.dataset(uri).count_rows("v = 1") == 0
    assert warnings == []


@pytest.mark.parametrize("change", ["update", "merge_insert"])
def test_stale_row_ids_of_an_older_segment_are_not_found(tmp_path: Path, change: str, warnings: list[str]) -> None:
    """The reference library finds all 10 rows under the old value, as the first segment still names their ids."""
    uri = str(tmp_path)
    dataset = write(uri, {"c": pa.array(["old"] * 10)}, stable_row_ids=True)
    dataset.create_scalar_index("c", "BITMAP")
    if change == "update":
        dataset.update({"c": "'new'"}, where="id < 3")
    else:
        new = pa.table({ID: pa.array(range(3), pa.int64()), "c": ["new"] * 3})
        dataset.merge_insert(ID).when_matched_update_all().execute(new)
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    opened = lance_spark.open(uri)
    assert ids(opened.to_table(filter="c = 'old'")) == list(range(3, 10))
    assert ids(opened.to_table(filter="c <> 'old'")) == [0, 1, 2]
    assert opened.count_rows("c = 'new'") == 3
    assert "2 segments" in opened.explain("c = 'old'")
    assert lance.dataset(uri).count_rows("c = 'old'") == 10
    assert warnings == []


def test_values_beyond_one_array_are_refused() -> None:
    class TooLarge:
        num_chunks = 2

        def combine_chunks(self) -> None:
            raise pa.ArrowInvalid("offset overflow")

    with pytest.raises(UnsupportedFeatureError, match="more than 2 GiB"):
        combined(TooLarge())  # type: ignore[arg-type]
