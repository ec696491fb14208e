"""The method of a `Dataset` that leads to the maintenance under the reference library's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_spark.table.indexes.index_verbs import DatasetIndexVerbs
from lance_spark.table.indexes.optimizer import Optimizer
from lance_spark.table.maintenance.maintenance_verbs import MaintenanceVerbs

if TYPE_CHECKING:
    from typing_extensions import Self


class OptimizerVerbs(MaintenanceVerbs, DatasetIndexVerbs):
    """Maintenance and indexes of one table."""

    @property
    def optimize(self) -> Optimizer[Self]:
        """`optimize_indices` and `compact_files` with the arguments of the reference library."""
        return Optimizer(self)
