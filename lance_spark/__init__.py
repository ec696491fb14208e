"""Lance tables for Python and Apache Spark.

>>> import lance_spark, pyarrow as pa
>>> dataset = lance_spark.write(pa.table({"a": [1, 2, 3]}), "memory://docs/numbers")
>>> dataset.to_table(filter="a > 1").to_pydict()
{'a': [2, 3]}
>>> lance_spark.write(pa.table({"a": [4]}), "memory://docs/numbers", mode="append").version
2
>>> lance_spark.open("memory://docs/numbers", version=1).count_rows()
3
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lance_spark.catalog import Catalog, connect
    from lance_spark.errors import (
        CommitConflictError,
        CommitStateUnknownError,
        CorruptFileError,
        IncompatibleConflictError,
        InvalidInputError,
        LanceError,
        NotFoundError,
        RetryableConflictError,
        StorageError,
        UnsupportedFeatureError,
    )
    from lance_spark.index.text.queries import BooleanQuery, BoostQuery, MatchQuery, MultiMatchQuery, PhraseQuery
    from lance_spark.partitioned.access import open_table as open  # noqa: A004
    from lance_spark.partitioned.access import write_table as write
    from lance_spark.partitioned.dataset import PartitionedDataset
    from lance_spark.progress import set_progress
    from lance_spark.schema.blob import blob_field
    from lance_spark.spark.search import search
    from lance_spark.spark.session import configure, install
    from lance_spark.table.bases import BasePath
    from lance_spark.table.dataset import Dataset

    __version__: str

_NAMES_OF_MODULES = {
    "catalog": ("Catalog", "connect"),
    "errors": (
        "CommitConflictError",
        "CommitStateUnknownError",
        "CorruptFileError",
        "IncompatibleConflictError",
        "InvalidInputError",
        "LanceError",
        "NotFoundError",
        "RetryableConflictError",
        "StorageError",
        "UnsupportedFeatureError",
    ),
    "index.text.queries": ("BooleanQuery", "BoostQuery", "MatchQuery", "MultiMatchQuery", "PhraseQuery"),
    "partitioned.access": ("open", "write"),
    "partitioned.dataset": ("PartitionedDataset",),
    "progress": ("set_progress",),
    "schema.blob": ("blob_field",),
    "spark.search": ("search",),
    "spark.session": ("configure", "install"),
    "table.bases": ("BasePath",),
    "table.dataset": ("Dataset",),
}
_MODULES = {name: module for module, names in _NAMES_OF_MODULES.items() for name in names}
_NAMES_THERE = {"open": "open_table", "write": "write_table"}


def __getattr__(name: str) -> Any:
    # Imported when it is asked for: each Python worker of Spark imports the package, and needs a part of it.
    if name in _MODULES:
        value = getattr(import_module(f"lance_spark.{_MODULES[name]}"), _NAMES_THERE.get(name, name))
    elif name == "__version__":
        value = _installed_version()
    elif not name.startswith("_") and find_spec(f"lance_spark.{name}") is not None:
        # Parts such as `errors` and `torch`. Not in __all__: a star import must not hide PyTorch.
        return import_module(f"lance_spark.{name}")
    else:
        raise AttributeError(f"module 'lance_spark' has no attribute {name!r}")
    globals()[name] = value
    return value


def _installed_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("lance-spark")
    except PackageNotFoundError:
        return "0.0.0"


def __dir__() -> list[str]:
    # Public names, those that are not imported yet too; without submodules that happen to be loaded.
    return sorted(__all__)


__all__ = [
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
]
