"""The sign of life by which the JVM starts the planner worker and keeps it ready between statements."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.kernels.machine_code import llvm
from lance_spark.spark.connector.channel.registry import Call, Done, known_operations, operation


@dataclass(frozen=True, slots=True)
class ReadyRequest:
    """Asks for nothing."""


@operation("planner.ready")
def ready(request: ReadyRequest, call: Call) -> Done:
    """Imports what statements need, of which LLVM takes the longest."""
    known_operations()
    llvm()
    return Done()
