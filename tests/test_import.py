"""`import lance_spark` is light: planners, drivers and notebooks pay for it at every start."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.util import find_spec
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

OTHER_VERBS = (
    *("lance_spark.analysis", "lance_spark.expr.evaluate", "lance_spark.index.builders"),
    *("lance_spark.index.registry", "lance_spark.index.text", "lance_spark.index.vector", "lance_spark.namespace"),
    *("lance_spark.layouts.v2_0.field_reader", "lance_spark.partitioned.dataset"),
    *("lance_spark.partitioned.maintenance", "lance_spark.partitioned.table", "lance_spark.table.change_feed"),
    *("lance_spark.table.cleanup.cleanup", "lance_spark.table.commits.conflicts", "lance_spark.table.indexes.build"),
    *("lance_spark.table.maintenance.compaction", "lance_spark.table.search.locate"),
    *("lance_spark.table.row_level.merge", "lance_spark.table.row_level.update", "lance_spark.table.refs.branching"),
    *("lance_spark.table.search.text_search", "lance_spark.table.vector_search.search", "Stemmer"),
    *("asyncio", "ssl", "zoneinfo", "fractions"),
)
"""Rooms of verbs, and what they need, which a table is opened, read and created without."""

MOST_MODULES = {"open": 240, "read": 240, "write": 320, "read task": 260, "write task": 350}
"""Bounds on the modules of the package that a verb loads; there are more than 900."""

LATER = {
    "lance_spark.expr.sql.grammar",
    "lance_spark.kernels.compiler",
    "lance_spark.namespace.served.interface",
    "lance_spark.partitioned.write",
    "lance_spark.storage.served_versions",
    "lance_spark.table.dataset_fragment",
    "lance_spark.table.manifests.served_manifests",
    "lance_spark.table.reading.arrow_dataset",
}
"""Modules that a planner does not import before its first statement: the grammar, which only filters in text need,
the compiler of kernels that are not on disk, catalogs by a class, versions that a server keeps, and what only Python
reads and writes by.
"""


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
        "Catalog",
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
        "connect",
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
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of numbers and text."""
    place = str(tmp_path_factory.mktemp("plain") / "table")
    lance_spark.write(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"], "price": [0.5, 1.5, 2.5]}), place)
    return place


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


STEPS = {
    "open": "lance_spark.open({table!r})",
    "read": "lance_spark.open({table!r}).to_table()",
    "write": "lance_spark.write(pa.ipc.open_file({rows!r}).read_all(), {new!r})",
}


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_verbs_load_no_rooms_of_other_verbs(rows: Path, plain: str, tmp_path: Path, step: str) -> None:
    code = STEPS[step].format(table=plain, rows=str(rows), new=str(tmp_path / "new"))
    statement = f"import lance_spark, pyarrow as pa\n{code}\nprint(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", f"import sys\n{statement}"], check=True, capture_output=True, text=True
    )
    loaded = result.stdout.split()
    assert {*loaded} & {*OTHER_VERBS} == set()
    assert len([name for name in loaded if name.partition(".")[0] == "lance_spark"]) <= MOST_MODULES[step]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "module"),
    [
        ("read task", "lance_spark.spark.connector.channel.tasks"),
        ("write task", "lance_spark.spark.connector.write.job_task"),
    ],
)
def test_tasks_load_no_rooms_of_verbs(task: str, module: str) -> None:
    statement = f"import sys, {module}; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", statement], check=True, capture_output=True, text=True)
    loaded = [name for name in result.stdout.split() if name.partition(".")[0] == "lance_spark"]
    assert {*loaded} & {*OTHER_VERBS} == set()
    assert len(loaded) <= MOST_MODULES[task]


@pytest.mark.slow
def test_results_of_tasks_are_made_without_pandas() -> None:
    statement = (
        "from lance_spark.spark.connector.channel.tasks import messages\n"
        "assert messages([b'a', b'', b'bc']).column(0).to_pylist() == [b'a', b'', b'bc']"
    )
    assert loaded_after(statement, ("pandas",)) == set()


@pytest.mark.slow
def test_reading_numbers_and_text_does_not_load_the_functions_of_arrow(plain: str) -> None:
    statement = f"import lance_spark\nlance_spark.open({plain!r}).to_table()"
    assert loaded_after(statement, ("pyarrow.compute", "pyarrow.dataset", "pandas")) == set()


@pytest.mark.parametrize("name", [name for name in OTHER_VERBS if name.startswith("lance_spark")])
def test_rooms_of_other_verbs_are_there(name: str) -> None:
    assert find_spec(name) is not None


def test_a_ready_planner_has_what_verbs_import_later() -> None:
    code = (
        "import sys\nfrom lance_spark.spark.connector.channel.readiness import import_verbs\n"
        "import_verbs()\nprint(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    named = {name for path in engine_files() for name in imported_in_functions(path)}
    assert len(named) > 50
    assert named - {*loaded} == LATER


def engine_files() -> list[Path]:
    """The modules of the package that tables are read and written with, without the connector and other uses."""
    package = Path(lance_spark.__file__).parent
    uses = {"cli", "spark", "torch", "blobs.py", "storage"}
    return [path for path in package.rglob("*.py") if path.relative_to(package).parts[0] not in uses]


def imported_in_functions(path: Path) -> set[str]:
    """The modules of the package that functions of a file import when they are called."""
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    nodes = [node for function in functions for node in ast.walk(function) if isinstance(node, ast.ImportFrom)]
    return {node.module for node in nodes if node.module is not None and node.module.startswith("lance_spark.")}
