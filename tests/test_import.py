"""`import lance_spark` is light: planners, drivers and notebooks pay for it at every start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import lance_spark

HEAVY = ("pyspark", "numba", "s3fs", "gcsfs", "adlfs", "botocore", "lance", "pandas", "sqlglot")

UNUSED = (
    *("pandas", "polars", "duckdb", "lance", "sklearn", "matplotlib", "torch", "pyarrow.dataset", "pyarrow.parquet"),
    *("pyspark", "py4j", "sqlglot", "datafusion", "jieba", "shapely", "rich", "tqdm", "IPython"),
    *("s3fs", "gcsfs", "adlfs", "botocore", "aiohttp", "requests", "lance_namespace_urllib3_client"),
    *("lance_spark.spark", "lance_spark.cli", "lance_spark.torch", "lance_spark.blobs"),
)
"""What tables of local files need not load: other engines, clients of stores, and our own ways to them."""


def loaded_after(statement: str, names: tuple[str, ...] = HEAVY) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return {name for name in result.stdout.splitlines()[-1].split() if name in names}


def test_importing_the_package_loads_neither_spark_nor_numba_nor_a_store_client() -> None:
    assert loaded_after("import lance_spark") == set()


def test_parts_of_the_package_do_not_load_all_of_it() -> None:
    code = "import sys, lance_spark.file.writer; print(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "lance_spark.file.writer" in loaded
    assert not {"lance_spark.table.dataset", "lance_spark.partitioned.dataset", "lance_spark.index"} & {*loaded}


def test_dir_shows_the_public_names_and_no_others() -> None:
    import lance_spark

    assert dir(lance_spark) == sorted(lance_spark.__all__)
    assert all(getattr(lance_spark, name) is not None for name in lance_spark.__all__)


@pytest.mark.slow
def test_star_import_gives_the_public_names_without_loading_spark() -> None:
    assert "pyspark" not in loaded_after("from lance_spark import *; configure; install")


@pytest.mark.slow
def test_parts_of_the_package_are_attributes() -> None:
    code = "import lance_spark as ls; print(ls.errors.LanceError is ls.LanceError, ls.torch.dataset)"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert result.stdout.startswith("True <function dataset")


def test_unknown_name_is_an_attribute_error() -> None:
    import lance_spark

    assert not hasattr(lance_spark, "no_such_name")


def test_the_public_names() -> None:
    import lance_spark

    assert set(lance_spark.__all__) == {
        "BasePath",
        "BooleanQuery",
        "BoostQuery",
        "CommitConflictError",
        "CommitStateUnknownError",
        "CorruptFileError",
        "Dataset",
        "IncompatibleConflictError",
        "InvalidInputError",
        "LanceError",
        "MatchQuery",
        "MultiMatchQuery",
        "NotFoundError",
        "PartitionedDataset",
        "PhraseQuery",
        "RetryableConflictError",
        "StorageError",
        "UnsupportedFeatureError",
        "__version__",
        "blob_field",
        "configure",
        "install",
        "open",
        "search",
        "set_progress",
        "write",
    }
    for name in lance_spark.__all__:
        assert hasattr(lance_spark, name)


@pytest.mark.slow
def test_opening_and_planning_need_no_numba(tmp_path: object) -> None:
    loaded = loaded_after(
        "import lance_spark, pyarrow as pa\n"
        "from lance_spark.storage import open_store\n"
        "from lance_spark.table.manifests import manifest\nfrom lance_spark.table.commits import commit\n"
    )
    assert "numba" not in loaded


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of Arrow: pyarrow itself imports pandas to make arrays of lists."""
    columns = {
        "id": pa.array([1, 2, 3, None]),
        "name": pa.array(["a", None, "b", "c"]),
        "at": pa.array([1, 2, None, 4], pa.timestamp("us")),
        "price": pa.array([1, 2, None, 4], pa.float64()),
        "list": pa.array([[1], [], None, [2, 3]]),
        "struct": pa.array([{"x": 1}, None, {"x": None}, {"x": 2}]),
        "kind": pa.array(["x", "y", "x", None]).dictionary_encode(),
    }
    place = tmp_path_factory.mktemp("rows") / "rows.arrow"
    table = pa.table(columns)
    with pa.ipc.new_file(str(place), table.schema) as writer:
        writer.write_table(table)
    return place


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["create", "append", "overwrite"])
def test_write_loads_nothing_that_it_does_not_use(rows: Path, tmp_path: Path, mode: str) -> None:
    place = str(tmp_path / "table")
    if mode != "create":
        lance_spark.write(pa.ipc.open_file(str(rows)).read_all(), place)
    write = f"lance_spark.write(pa.ipc.open_file({str(rows)!r}).read_all(), {place!r}, mode={mode!r})"
    assert loaded_after(f"import lance_spark, pyarrow as pa\n{write}", UNUSED) == set()


@pytest.fixture(scope="module")
def place(rows: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of which a row was deleted."""
    place = str(tmp_path_factory.mktemp("table") / "table")
    lance_spark.write(pa.ipc.open_file(str(rows)).read_all(), place).delete("id = 1")
    return place


@pytest.mark.slow
@pytest.mark.parametrize(
    "read",
    [
        "to_table()",
        "count_rows()",
        "take([0, 2])",
        "to_table(['id'], \"id > 2 AND name = 'b'\")",
        "to_table(['id'], \"at IS NOT NULL AND id >= 2\")",
        "to_table(['id'], \"name LIKE 'b%' OR name IS NULL\", limit=1)",
    ],
)
def test_read_loads_nothing_that_it_does_not_use(place: str, read: str) -> None:
    assert loaded_after(f"import lance_spark\nlance_spark.open({place!r}).{read}", UNUSED) == set()
