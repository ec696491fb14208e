"""Measures how many of the nearest rows searches with an index find."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.table.vector_search.vector_verbs import VectorVerbs

_ROUNDING = 1e-5
"""Distances that differ by no more than this share are equal."""


class IndexRecallVerbs(VectorVerbs, ABC):
    """The verb that measures vector indexes, for tables of any kind."""

    @abstractmethod
    def list_indices(self) -> list[dict[str, Any]]:
        """The segments of the indexes."""

    @abstractmethod
    def index_statistics(self, name: str) -> dict[str, Any]:
        """Statistics of an index."""

    def index_recall(
        self, name: str, k: int = 10, num_queries: int = 100, *, seed: int = 0, **search: Any
    ) -> dict[str, Any]:
        """Measures the recall of a vector index: the share of the `k` nearest rows that its searches return.

        The queries are vectors of random rows. A search without the index says which rows are the nearest; of rows
        with equal distances each counts.

        Args:
            name: of the index.
            num_queries: the number of queries; fewer if the table has fewer rows with a vector.
            seed: chooses them.
            search: arguments of `nearest`, such as `nprobes` and `refine_factor`.

        Returns:
            a dict: `name`, `column`, `metric`, `k`, `num_queries`, `recall` (the mean share of the nearest rows that
            were found, from 0 to 1; None without a query) and `least_recall` (of the query with the least).

        Raises:
            NotFoundError: no such index.
            InvalidInputError: it is no vector index that searches use, or an argument is invalid.
        """
        column, metric = self._indexed(name)
        if num_queries < 1:
            raise InvalidInputError(f"num_queries is {num_queries}; it must be at least 1")
        queries = self._sample(column, num_queries, seed)
        shares: list[float] = []
        if len(queries):
            asked: dict[str, Any] = {"k": k, "metric": metric, "columns": []}
            exact = _by_query(self.nearest(column, queries, use_index=False, **asked), len(queries))
            found = _by_query(self.nearest(column, queries, **{**asked, **search}), len(queries))
            shares = [_share(one, other) for one, other in zip(exact, found, strict=True) if len(one)]
        return {
            "name": name,
            "column": self._path(name),
            "metric": metric,
            "k": k,
            "num_queries": len(shares),
            "recall": float(np.mean(shares)) if shares else None,
            "least_recall": min(shares, default=None),
        }

    def _indexed(self, name: str) -> tuple[str, str]:
        """(the column of an index, its metric)."""
        from lance_spark.schema.projection import quoted
        from lance_spark.table.vector_search.search import searched_column

        if not any(index["name"] == name for index in self.list_indices()):
            raise NotFoundError(f"there is no index {name!r}")
        segments = self.index_statistics(name)["segments"]
        metric = next((str(item["metric_type"]) for item in segments if "metric_type" in item), None)
        if metric is None:
            raise InvalidInputError(
                f"index {name!r} is not a vector index, or has no rows; name a vector index with rows"
            )
        column = quoted(tuple(self._path(name).split(".")))
        if searched_column(column, self.stored_schema).is_multivector:
            raise InvalidInputError(f"index {name!r} is over lists of vectors, which are searched without it")
        return column, metric

    def _path(self, name: str) -> str:
        """The dotted path of the indexed column."""
        return next(str(index["fields"][0]) for index in self.list_indices() if index["name"] == name)

    def _sample(self, column: str, count: int, seed: int) -> npt.NDArray[Any]:
        """[n, d]: the vectors of random rows that have one."""
        num_rows = self.count_rows()
        places = np.random.default_rng(seed).permutation(num_rows)[: 2 * count]
        values = self.take(places.tolist(), [column]).column(0).drop_null().to_pylist()
        if values and isinstance(values[0], dict):
            raise InvalidInputError(f"recall of an index over {column}, a field of a struct, is not measured")
        return np.array(values[:count])


def _by_query(result: pa.Table, num_queries: int) -> list[npt.NDArray[np.float32]]:
    """The distances of each query's rows, ascending."""
    from lance_spark.table.vector_search.query import DISTANCE, QUERY_INDEX

    numbers, distances = result[QUERY_INDEX].to_numpy(), result[DISTANCE].to_numpy()
    return [np.sort(distances[numbers == number]) for number in range(num_queries)]


def _share(exact: npt.NDArray[np.float32], found: npt.NDArray[np.float32]) -> float:
    farthest = exact[-1] + _ROUNDING * max(1.0, abs(float(exact[-1])))
    return min(1.0, int((found <= farthest).sum()) / len(exact))
