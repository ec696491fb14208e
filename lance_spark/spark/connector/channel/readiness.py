"""The sign of life by which the JVM starts the planner worker and keeps it ready between statements."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from lance_spark.encodings.registry import known_codecs
from lance_spark.kernels.target import llvm
from lance_spark.layouts.registry import known_layouts
from lance_spark.layouts.v2_0.registry import known_array_encodings
from lance_spark.spark.connector.channel.registry import Call, Done, known_operations, operation

_OF_VERBS = (
    "layouts.prepared.bare_pages",
    "layouts.v2_0.field_reader",
    "table.commits.conflicts",
    "table.manifests.external_manifests",
    "table.operations.committable",
    "table.reading.decoding.few_rows",
    "table.reading.read_shape",
    "table.reading.row_group_pruning",
    "table.refs.branching",
    "table.row_level.merge_insert",
    "table.row_level.update",
)
"""Modules that verbs import when they are called, and that the operations do not import themselves."""


@dataclass(frozen=True, slots=True)
class ReadyRequest:
    """Asks for nothing."""


@operation("planner.ready")
def ready(request: ReadyRequest, call: Call) -> Done:
    """Imports what statements need; LLVM and pyarrow's groups, which import pandas, take the longest."""
    import_verbs()
    import_module("pyarrow.acero")
    llvm()
    return Done()


def import_verbs() -> None:
    """Imports what operations and verbs import when they are called first, so that no statement waits for it."""
    known_operations()
    for known in (known_codecs, known_layouts, known_array_encodings):
        known()
    for name in _OF_VERBS:
        import_module(f"lance_spark.{name}")
