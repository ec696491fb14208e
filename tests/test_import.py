"""`import lance_spark` is light: planners, drivers and notebooks pay for it at every start."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("pyspark", "numba", "s3fs", "gcsfs", "adlfs", "botocore", "lance", "pandas", "sqlglot")


def loaded_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(' '.join(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return {name for name in result.stdout.split() if name in HEAVY}


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


def test_star_import_gives_the_public_names_without_loading_spark() -> None:
    assert "pyspark" not in loaded_after("from lance_spark import *; configure; install")


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


def test_opening_and_planning_need_no_numba(tmp_path: object) -> None:
    loaded = loaded_after(
        "import lance_spark, pyarrow as pa\n"
        "from lance_spark.storage import open_store\n"
        "from lance_spark.table.manifests import manifest\nfrom lance_spark.table.commits import commit\n"
    )
    assert "numba" not in loaded
