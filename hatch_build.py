"""Puts the connector's jar into the wheel: one that `make jar` has built, or one that is built here.

A build in isolation sees no pyspark; it takes the jar that is there, or compiles against SPARK_HOME.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class JarHook(BuildHookInterface):  # type: ignore[type-arg]
    """Warns, and goes on without the jar, where it cannot be built: the plug-in works without it."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        script = Path(self.root) / "lance_spark" / "spark" / "jvm" / "build.py"
        builder = runpy.run_path(str(script))
        if builder["is_current"]():
            return
        try:
            builder["build"]()
        except builder["JarBuildError"] as error:
            # One of older sources would speak another language than the Python package.
            builder["JAR"].unlink(missing_ok=True)
            self.app.display_warning(f"the wheel has no jar, and so no connector: {error}")
