"""The operations of a transaction. Each is imported when it is asked for: a read needs only the names of kinds."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lance_spark.table.operations.base import CommittableOperation, Operation, OperationKind, OtherOperation, Settings

if TYPE_CHECKING:
    from lance_spark.table.operations.append import Append
    from lance_spark.table.operations.clone import Clone
    from lance_spark.table.operations.committable import COMMITTABLE, parse_operation
    from lance_spark.table.operations.create_index import CreateIndex
    from lance_spark.table.operations.data_replacement import DataReplacement
    from lance_spark.table.operations.delete import Delete
    from lance_spark.table.operations.merge import Merge, Recomputed
    from lance_spark.table.operations.overwrite import Overwrite
    from lance_spark.table.operations.project import Project
    from lance_spark.table.operations.reserve_fragments import ReserveFragments
    from lance_spark.table.operations.restore import Restore
    from lance_spark.table.operations.rewrite import Rewrite, RewriteGroup
    from lance_spark.table.operations.update import Update, UpdateMode
    from lance_spark.table.operations.update_bases import UpdateBases
    from lance_spark.table.operations.update_config import UpdateConfig

_NAMES_OF_MODULES = {
    "append": ("Append",),
    "clone": ("Clone",),
    "committable": (
        "COMMITTABLE",
        "parse_operation",
    ),
    "create_index": ("CreateIndex",),
    "data_replacement": ("DataReplacement",),
    "delete": ("Delete",),
    "merge": (
        "Merge",
        "Recomputed",
    ),
    "overwrite": ("Overwrite",),
    "project": ("Project",),
    "reserve_fragments": ("ReserveFragments",),
    "restore": ("Restore",),
    "rewrite": (
        "Rewrite",
        "RewriteGroup",
    ),
    "update": (
        "Update",
        "UpdateMode",
    ),
    "update_bases": ("UpdateBases",),
    "update_config": ("UpdateConfig",),
}
_MODULES = {name: module for module, names in _NAMES_OF_MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return value


__all__ = [
    "COMMITTABLE",
    "Append",
    "Clone",
    "CommittableOperation",
    "CreateIndex",
    "DataReplacement",
    "Delete",
    "Merge",
    "Operation",
    "OperationKind",
    "OtherOperation",
    "Overwrite",
    "Project",
    "Recomputed",
    "ReserveFragments",
    "Restore",
    "Rewrite",
    "RewriteGroup",
    "Settings",
    "Update",
    "UpdateBases",
    "UpdateConfig",
    "UpdateMode",
    "parse_operation",
]
