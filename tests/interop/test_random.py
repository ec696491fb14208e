"""Tables of random nested types through three commits, each by the other library in turn.

Each file version gets LANCE_EXAMPLES tables; `make soak` asks for thousands.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import lance_spark
from tests.support.equality import assert_tables_equal
from tests.support.strategies import arrays

EXAMPLES = int(os.environ.get("LANCE_EXAMPLES", "40"))


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_any_table(tmp_path: Path, version: str) -> None:
    uri = tmp_path / "t"

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(arrays(maps=version == "2.2", null_structs=version != "2.0"))
    def check(values: pa.Array) -> None:
        shutil.rmtree(uri, ignore_errors=True)
        table = pa.table({"key": pa.array(range(len(values)), pa.int64()), "c": values})
        # In the reference's own layout of batches, so that nothing hides in slices when it writes.
        plain = pa.table({name: pa.concat_arrays(table[name].chunks) for name in table.column_names})
        lance_spark.write(table, str(uri), file_format_version=version)
        lance.write_dataset(plain, str(uri), mode="append")
        lance_spark.write(table, str(uri), mode="append")
        expected = pa.concat_tables([plain] * 3)
        assert_tables_equal(lance.dataset(str(uri)).to_table(), expected)
        assert_tables_equal(lance_spark.open(str(uri)).to_table(), expected)
        if len(values):
            lance.dataset(str(uri)).delete("key % 2 = 0")
            kept = expected.filter(pa.array([key % 2 == 1 for key in expected["key"].to_pylist()]))
            assert_tables_equal(lance_spark.open(str(uri)).to_table(), kept)

    check()
