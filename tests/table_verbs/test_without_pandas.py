"""Tables of Python without pandas, which is no dependency: pyarrow has no moments of nanoseconds then."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import lance_spark

_START = """
import sys

class NoPandas:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name="pandas")

sys.meta_path.insert(0, NoPandas())
import pyarrow as pa
import lance_spark
from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.partitioned.dataset import create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity

MOMENTS = pa.array([1, 1_700_000_000_123_456_789, None], pa.timestamp("ns"))
ROWS = pa.table({"id": [1, 2, 3], "at": MOMENTS})

def message(error, call):
    try:
        call()
    except error as raised:
        return str(raised)
"""


def printed(code: str, folder: Path) -> list[str]:
    """The lines that `code` prints in a process without pandas, after `_START`."""
    command = [sys.executable, "-c", f"{_START}\nplace = sys.argv[1]\n{code}", str(folder / "table")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "partitioned"])
def test_tables_are_written_changed_and_read(tmp_path: Path, kind: str) -> None:
    by = '[PartitionBy("at", ("at",), Identity())]'
    made = {
        "plain": "lance_spark.write(ROWS, place)",
        "partitioned": f"create_partitioned_dataset(place, ROWS.schema, {by}).append(ROWS)",
    }
    code = f"""
table = {made[kind]}
table = table.merge_insert("id").when_matched_update_all().execute(ROWS.slice(1, 1))
table = lance_spark.open(place)
later = table.to_table(["id"], "at > TIMESTAMP_NTZ '2023-01-01 00:00:00'")
print(later.column("id").to_pylist(), table.to_table(order_by=["id"]).equals(ROWS))
print(message(UnsupportedFeatureError, table.to_pandas))
print(message(UnsupportedFeatureError, table.scanner().to_pandas))
"""
    refused = "to_pandas needs pandas, which is not installed; pip install pandas"
    assert printed(code, tmp_path) == ["[2] True", refused, refused]


@pytest.mark.slow
def test_partitions_of_nanoseconds_are_named(tmp_path: Path) -> None:
    code = """
by = [PartitionBy("at", ("at",), Identity())]
table = create_partitioned_dataset(place, ROWS.schema, by).append(ROWS)
print(sorted(str(part.named_values()["partition_field_at"]) for part in table.partitions()))
"""
    shown = ["1970-01-01 00:00:00.000000001", "2023-11-14 22:13:20.123456789", "None"]
    assert printed(code, tmp_path) == [str(shown)]


@pytest.mark.slow
def test_key_of_nanoseconds_that_occurs_twice_is_named(tmp_path: Path) -> None:
    code = """
table = lance_spark.write(ROWS, place)
twice = pa.table({"at": MOMENTS.take(pa.array([1, 1])), "name": ["a", "b"]})
print(message(InvalidInputError, lambda: table.add_columns((twice, ["at"]))))
"""
    assert printed(code, tmp_path) == ["more than one row has the key {'at': '2023-11-14 22:13:20.123456789'}"]


def test_package_asks_pyarrow_for_no_type_of_pandas() -> None:
    # `DataType.to_pandas_dtype` imports pandas before pyarrow 26.
    sources = Path(lance_spark.__file__).parent.rglob("*.py")
    assert [path.name for path in sources if ".to_pandas_dtype(" in path.read_text()] == []
