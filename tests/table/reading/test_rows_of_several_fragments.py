"""Few rows of several large fragments, which are read together: the same rows and errors as one by one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CorruptFileError
from lance_spark.file import joined_reader
from lance_spark.storage.meter import READS
from lance_spark.table.reading.decoding import single_rows
from lance_spark.table.reading.fragment_group import FragmentGroup
from tests.support.table.fragment_groups import VERSIONS, table_of

ROWS = 40_000
ROWS_PER_FRAGMENT = 9_000


@pytest.fixture(scope="module", params=[(version, stable) for version in VERSIONS for stable in (False, True)], ids=str)
def uri(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A table of the reference library: five fragments, pages of some KiB, deleted rows, an added column, an index."""
    version, stable = request.param
    path = str(tmp_path_factory.mktemp("several") / "t.lance")
    rows = table_of(ROWS, null_structs=version != "2.0")
    wide = pa.array(np.random.default_rng(4).integers(0, 256, ROWS * 24, np.uint8)).cast(pa.uint8())
    rows = rows.append_column("wide", pa.FixedSizeListArray.from_arrays(wide, 24))
    rows = rows.append_column("hash", pa.array([f"{number * 2654435761 % 2**32:08x}" for number in range(ROWS)]))
    written = lance.write_dataset(
        rows,
        path,
        max_rows_per_file=ROWS_PER_FRAGMENT,
        data_storage_version=version,
        enable_stable_row_ids=stable,
    )
    written.delete("id % 17 = 2")
    written.add_columns({"twice": "id * 2"})
    written.delete("id >= 20000 AND id < 20050")
    written.create_scalar_index("id", "BTREE")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joined_reader, "_SMALL_FILE_BYTES", 0)
        yield path


@pytest.mark.parametrize("count", [2, 9, 300, 3000])
def test_take_equals_pylance(uri: str, count: int) -> None:
    table, reference = lance_spark.open(uri), lance.dataset(uri)
    indices = np.random.default_rng(count).integers(0, table.count_rows(), count).tolist()
    for _ in range(2):  # Later reads use what was prepared for the first.
        assert table.take(indices).equals(reference.take(indices))
    for columns in (["id"], ["l", "twice"]):
        assert table.take(indices, columns).equals(reference.take(indices, columns))


def test_neighbours_across_the_border_of_fragments(uri: str) -> None:
    table, reference = lance_spark.open(uri), lance.dataset(uri)
    border = table.fragments[0].num_rows
    assert border is not None
    indices = [*range(border - 40, border + 40), 2 * border]
    assert table.take(indices).equals(reference.take(indices))


CONDITIONS = [
    "id IN (5, 8999, 9000, 9001, 19, 26999, 27000, 39999)",
    "id IN (2, 20010)",
    "id = 31",
    "id IN (11, 12345, 30001) AND b",
    "id IN (11, 12345, 30001, 39000) AND s IS NOT NULL AND st.b > 0.3",
    "id BETWEEN 8990 AND 9010",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_rows_found_by_an_index_equal_those_of_a_scan(uri: str, condition: str) -> None:
    table, reference = lance_spark.open(uri), lance.dataset(uri)
    expected = reference.to_table(filter=condition, use_scalar_index=False)
    assert table.to_table(filter=condition).equals(expected)
    found = table.to_table(["id"], filter=condition, with_row_id=True, with_row_address=True)
    scanned = reference.to_table(
        ["id"], filter=condition, with_row_id=True, with_row_address=True, use_scalar_index=False
    )
    assert found.equals(scanned.select(found.column_names))


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_few_rows_of_large_files_are_read_as_one(tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "t")
    # Few rows are copied one by one.
    monkeypatch.setattr(single_rows, "MOST_ROWS", 0)
    values = np.random.default_rng(0).integers(0, 1 << 62, 600_000).astype(str)
    lance.write_dataset(pa.table({"v": values}), path, max_rows_per_file=200_000, data_storage_version=version)
    for file in Path(path, "data").iterdir():
        # Nothing is kept of files that changed a moment ago.
        os.utime(file, (1e9, 1e9))
    table = lance_spark.open(path)
    groups: list[int] = []
    init = FragmentGroup.__init__

    def counted(self: FragmentGroup, fragments: list[object], *others: object, **options: object) -> None:
        groups.append(len(fragments))
        init(self, fragments, *others, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(FragmentGroup, "__init__", counted)
    wanted = [10, 250_000, 250_001, 599_999]
    before = READS.counts
    assert table.take(wanted)["v"].to_pylist() == values[wanted].tolist()
    assert groups == [3]
    first = (READS.counts - before).num_bytes
    before = READS.counts
    assert table.take(wanted)["v"].to_pylist() == values[wanted].tolist()
    # By now the open files have kept the sizes of their chunks.
    assert (READS.counts - before).num_bytes < 50_000 < first < 500_000


def test_an_error_names_the_file(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    values = np.random.default_rng(0).integers(0, 1 << 62, 600_000)
    lance.write_dataset(pa.table({"v": values}), path, max_rows_per_file=200_000, data_storage_version="2.1")
    table = lance_spark.open(path)
    damaged = table.fragments[1].files[0].path
    file = Path(path, "data", damaged)
    content = bytearray(file.read_bytes())
    content[:1024] = b"\xff" * 1024
    file.write_bytes(bytes(content))
    with pytest.raises(CorruptFileError, match=damaged):
        table.take([1, 200_001, 400_001])
    assert table.take([1, 400_001])["v"].to_pylist() == values[[1, 400_001]].tolist()
