"""`to_table` cuts rows into chunks only if it is asked to."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

import lance_spark

ROWS = 100_000


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """By the reference library, with deleted rows."""
    folder = str(tmp_path_factory.mktemp("batches") / "t")
    rows = {"n": range(ROWS), "even": [number % 2 == 0 for number in range(ROWS)], "text": map(str, range(ROWS))}
    lance.write_dataset(pa.table({name: list(values) for name, values in rows.items()}), folder).delete("n % 1000 = 7")
    return folder


@pytest.mark.parametrize("filter", [None, "n % 3 = 1", "even AND n < 70000", "n < 0"])
@pytest.mark.parametrize("limit", [None, 0, 5, 20_000])
@pytest.mark.parametrize("columns", [["n", "even", "text"], ["even"], []])
def test_rows_are_the_same_with_and_without_a_batch_size(
    uri: str, filter: str | None, limit: int | None, columns: list[str]
) -> None:
    table = lance_spark.open(uri)
    uncut = table.to_table(columns, filter, limit)
    cut = table.to_table(columns, filter, limit, batch_size=1000)
    assert uncut.equals(cut)
    reference = lance.dataset(uri).to_table(columns, filter=filter, with_row_id=not columns)
    assert uncut.num_rows == min(reference.num_rows, ROWS if limit is None else limit)
    if columns:
        assert uncut.equals(reference.slice(0, uncut.num_rows))


def test_chunks_have_at_most_the_batch_size(uri: str) -> None:
    table = lance_spark.open(uri)
    assert max(map(len, table.to_table(batch_size=1000).column("n").chunks)) <= 1000
    assert max(map(len, table.to_table().column("n").chunks)) > 10_000
