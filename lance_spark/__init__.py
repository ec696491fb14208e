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
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _distribution_version
from typing import TYPE_CHECKING, Any

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
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.partitioned.dataset import open_table as open  # noqa: A004
from lance_spark.progress import set_progress
from lance_spark.schema.blob import blob_field
from lance_spark.table.access import write_dataset as write
from lance_spark.table.bases import BasePath
from lance_spark.table.dataset import Dataset

if TYPE_CHECKING:
    from lance_spark.spark.search import search
    from lance_spark.spark.session import configure, install

_OF_SPARK = {"configure": "session", "install": "session", "search": "search"}


def __getattr__(name: str) -> Any:
    # Imported lazily: Spark may not be installed.
    if name in _OF_SPARK:
        return getattr(import_module(f"lance_spark.spark.{_OF_SPARK[name]}"), name)
    if name == "torch":
        # Not in __all__: a star import must not hide PyTorch.
        return import_module("lance_spark.torch")
    raise AttributeError(f"module 'lance_spark' has no attribute {name!r}")


def __dir__() -> list[str]:
    # Public names, including `configure` and `install`; without submodules that happen to be loaded.
    return sorted(__all__)


try:
    __version__ = _distribution_version("lance-spark")
except PackageNotFoundError:
    __version__ = "0.0.0"

__all__ = [
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
]
