"""Small fragments that are read together: the same rows and errors as one by one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CorruptFileError, InvalidInputError, NotFoundError
from lance_spark.storage.meter import READS
from lance_spark.table.reading.fragment_group import grouped
from lance_spark.table.reading.selection import FragmentRows
from tests.support.table.fragment_groups import VERSIONS, table_of

FRAGMENTS = 60
ROWS = 7


@pytest.fixture(scope="module", params=[(version, stable) for version in VERSIONS for stable in (False, True)], ids=str)
def uri(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A table of the reference library with deleted rows, fragments without any row left, and an added column."""
    version, stable = request.param
    path = str(tmp_path_factory.mktemp("groups") / "t.lance")
    rows = table_of(FRAGMENTS * ROWS, null_structs=version != "2.0")
    written = lance.write_dataset(
        rows, path, max_rows_per_file=ROWS, data_storage_version=version, enable_stable_row_ids=stable
    )
    written.delete("id % 5 = 2 OR (id >= 70 AND id < 77)")
    written.add_columns({"twice": "id * 2"})
    written.delete("id % 11 = 3")
    return path


FILTERS = (None, "id % 3 = 0", "b", "s = 'ttt' OR st.b > 0.9", "twice > 300 AND w = 'word 1'", "n IS NOT NULL")


@pytest.mark.parametrize("filter", FILTERS)
@pytest.mark.parametrize("columns", [None, ["id"], ["st.b", "twice"], ["w", "l"]])
def test_scan_equals_pylance(uri: str, columns: list[str] | None, filter: str | None) -> None:
    got = lance_spark.open(uri).to_table(columns, filter=filter)
    assert got.equals(lance.dataset(uri).to_table(columns, filter=filter))


@pytest.mark.parametrize("filter", [None, "id % 3 = 0"])
def test_system_columns_equal_pylance(uri: str, filter: str | None) -> None:
    got = lance_spark.open(uri).to_table(["id"], filter=filter, with_row_id=True, with_row_address=True)
    expected = lance.dataset(uri).to_table(["id"], filter=filter, with_row_id=True, with_row_address=True)
    assert got.select(["id", "_rowid", "_rowaddr"]).equals(expected.select(["id", "_rowid", "_rowaddr"]))


def test_row_versions_equal_those_of_single_fragments(uri: str) -> None:
    table = lance_spark.open(uri)
    names = ["_fragid", "_row_created_at_version", "_row_last_updated_at_version"]
    scan = table.plan(names)
    single = pa.Table.from_batches([batch for fragment in table.fragments for batch in scan.read([fragment])])
    assert table.to_table(names).combine_chunks().equals(single.combine_chunks())


def test_take_equals_pylance(uri: str) -> None:
    table, reference = lance_spark.open(uri), lance.dataset(uri)
    indices = np.random.default_rng(1).integers(0, table.count_rows(), 100).tolist()
    assert table.take(indices).equals(reference.take(indices))


@pytest.mark.parametrize("filter", ["id % 3 = 0", "b"])
def test_count_and_limit_equal_pylance(uri: str, filter: str) -> None:
    table, reference = lance_spark.open(uri), lance.dataset(uri)
    assert table.count_rows(filter) == reference.count_rows(filter)
    for limit, offset in ((5, 0), (50, 20), (1000, 3)):
        expected = reference.to_table(["id"], filter=filter)["id"].to_pylist()[offset : offset + limit]
        assert table.to_table(["id"], filter=filter, limit=limit, offset=offset)["id"].to_pylist() == expected


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_delete_and_update_equal_pylance(tmp_path: Path, version: str) -> None:
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    rows = table_of(FRAGMENTS * ROWS).select(["id", "b", "s"])
    for path in (ours, theirs):
        lance.write_dataset(rows, path, max_rows_per_file=ROWS, data_storage_version=version)
    reference = lance.dataset(theirs)
    reference.delete("id % 50 < 3")
    reference.update({"s": "'new'"}, "id % 40 = 7")
    lance_spark.open(ours).delete("id % 50 < 3").update({"s": "'new'"}, "id % 40 = 7")
    expected = reference.to_table().sort_by("id")
    assert lance_spark.open(ours).to_table().sort_by("id").equals(expected)
    assert lance.dataset(ours).to_table().sort_by("id").equals(expected)


def _plain(path: Path, version: str = "2.1") -> lance_spark.Dataset:
    rows = pa.table({"id": np.arange(FRAGMENTS * ROWS), "z": [0 if number == 200 else 1 for number in range(420)]})
    lance.write_dataset(rows, str(path), max_rows_per_file=ROWS, data_storage_version=version)
    return lance_spark.open(str(path))


def _path_of(table: lance_spark.Dataset, place: int) -> Path:
    return Path(table.uri, "data", table.fragments[place].files[0].path)


def test_each_file_is_read_once(tmp_path: Path) -> None:
    table = _plain(tmp_path / "t")
    before = READS.counts
    assert table.to_table(filter="id % 2 = 0").num_rows == 210
    assert (READS.counts - before).requests == FRAGMENTS


def test_limit_does_not_read_all_files(tmp_path: Path) -> None:
    table = _plain(tmp_path / "t")
    before = READS.counts
    assert table.to_table(filter="id >= 0", limit=3).num_rows == 3
    assert (READS.counts - before).requests < FRAGMENTS // 2


def test_delete_reads_each_file_once_and_writes_touched_fragments_only(tmp_path: Path) -> None:
    table = _plain(tmp_path / "t")
    before = READS.counts
    newer = table.delete("id IN (15, 16, 300)")
    assert (READS.counts - before).requests <= FRAGMENTS + 10
    assert [fragment.id for fragment in newer.fragments if fragment.deletion_file is not None] == [2, 42]


@pytest.mark.parametrize(("damage", "error"), [("cut", CorruptFileError), ("missing", NotFoundError)])
def test_damaged_file_is_named_after_the_rows_before_it(tmp_path: Path, damage: str, error: type[Exception]) -> None:
    table = _plain(tmp_path / "t")
    path = _path_of(table, 30)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-5])
    else:
        path.unlink()
    seen: list[int] = []
    with pytest.raises(error, match=path.name):  # noqa: PT012
        for batch in table.scan(["id"]):
            seen += batch["id"].to_pylist()
    assert seen == list(range(30 * ROWS))


def test_filter_that_fails_on_a_later_row_fails_only_if_that_row_is_reached(tmp_path: Path) -> None:
    rows = pa.table({"id": np.arange(70), "s": ["x" if number == 40 else "1" for number in range(70)]})
    lance.write_dataset(rows, str(tmp_path / "t"), max_rows_per_file=5)
    table = lance_spark.open(str(tmp_path / "t"))
    assert table.to_table(filter="CAST(s AS INT) = 1", limit=20).num_rows == 20
    with pytest.raises(InvalidInputError):
        table.to_table(filter="CAST(s AS INT) = 1")


def test_files_of_several_versions_and_column_orders(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": [1, 2], "b": ["x", "y"]}), path, max_rows_per_file=1)
    lance.write_dataset(pa.table({"b": ["u", "v"], "a": [3, 4]}), path, mode="append", max_rows_per_file=1)
    lance.dataset(path).drop_columns(["b"])
    lance.dataset(path).add_columns({"b": "a + 1"})
    lance.write_dataset(pa.table({"a": [5, 6], "b": [6, 7]}), path, mode="append", max_rows_per_file=1)
    table = lance_spark.open(path)
    assert table.to_table().to_pydict() == {"a": [1, 2, 3, 4, 5, 6], "b": [2, 3, 4, 5, 6, 7]}
    groups = list(grouped(map(FragmentRows, table.fragments), table.lance_schema.fields, 1 << 26))
    assert [len(group) for group in groups] == [2, 2, 2]


def test_groups_grow_and_are_bounded(tmp_path: Path) -> None:
    table = _plain(tmp_path / "t")
    fields = table.lance_schema.fields
    assert [len(group) for group in grouped(map(FragmentRows, table.fragments), fields, 1 << 26)] == [16, 44]
    assert max(len(group) for group in grouped(map(FragmentRows, table.fragments), fields, 1000)) == 1000 // (16 * ROWS)
