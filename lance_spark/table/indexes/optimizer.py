"""`Dataset.optimize`: maintenance under the names and with the arguments of the reference library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from lance_spark.table.reference_arguments import with_reference_arguments

if TYPE_CHECKING:
    from typing_extensions import Self

    from lance_spark.expr.nodes import Expr


class Optimizable(Protocol):
    """A table that can be compacted and clustered, and whose indexes can be optimized."""

    def compact(
        self,
        *,
        target_rows_per_fragment: int | None = None,
        max_bytes_per_file: int | None = None,
        materialize_deletions: bool | None = None,
        materialize_deletions_threshold: float | None = None,
        batch_size: int | None = None,
        defer_index_remap: bool | None = None,
    ) -> Self:
        """See `Dataset.compact`."""
        ...

    def cluster(
        self, columns: Sequence[str] | str | None = None, curve: str = "hilbert", where: str | Expr | None = None
    ) -> Self:
        """See `Dataset.cluster`."""
        ...

    def optimize_indices(
        self,
        names: Sequence[str] | str | None = None,
        *,
        num_indices_to_merge: int | None = None,
        retrain: bool = False,
    ) -> Self:
        """See `Dataset.optimize_indices`."""
        ...


Table = TypeVar("Table", bound=Optimizable)


@with_reference_arguments
class Optimizer(Generic[Table]):
    """The maintenance of a table. A dataset does not change: each verb returns the version that it made."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def optimize_indices(
        self,
        *,
        num_indices_to_merge: int | None = None,
        index_names: Sequence[str] | None = None,
        retrain: bool = False,
    ) -> Table:
        """See `Dataset.optimize_indices`; `index_names` are its `names`."""
        return self._table.optimize_indices(index_names, num_indices_to_merge=num_indices_to_merge, retrain=retrain)

    def compact_files(
        self,
        *,
        target_rows_per_fragment: int | None = None,
        max_bytes_per_file: int | None = None,
        materialize_deletions: bool | None = None,
        materialize_deletions_threshold: float | None = None,
        batch_size: int | None = None,
        defer_index_remap: bool | None = None,
    ) -> Table:
        """See `Dataset.compact`."""
        return self._table.compact(
            target_rows_per_fragment=target_rows_per_fragment,
            max_bytes_per_file=max_bytes_per_file,
            materialize_deletions=materialize_deletions,
            materialize_deletions_threshold=materialize_deletions_threshold,
            batch_size=batch_size,
            defer_index_remap=defer_index_remap,
        )

    def cluster(
        self, columns: Sequence[str] | str | None = None, curve: str = "hilbert", where: str | Expr | None = None
    ) -> Table:
        """See `Dataset.cluster`."""
        return self._table.cluster(columns, curve, where)
