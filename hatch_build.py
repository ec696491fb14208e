"""Takes the connector's jar along into wheel and sdist: the current one of the tree, or one that is compiled for it.

A build in isolation sees no pyspark. It takes the jar of the tree if that was made of the same sources; without one,
the package carries the Java sources alone, and the first session compiles them (`lance_spark.spark.jvm.jar`).
"""

from __future__ import annotations

import runpy
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = "lance_spark/spark/jvm"


class JarHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the jar where it can be had, and goes on without it elsewhere."""

    PLUGIN_NAME = "custom"
    _folder: str | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        builder = runpy.run_path(str(Path(self.root) / PLACE / "build.py"))
        jar = builder["JAR"]
        if not builder["is_current"]():
            # Beside the tree: whoever has the package installed as editable keeps the jar that is there.
            self._folder = tempfile.mkdtemp(prefix="lance-spark-")
            jar = Path(self._folder) / jar.name
            try:
                builder["build"](jar)
            except builder["JarBuildError"] as error:
                self.app.display_info(f"without the connector's jar, which the first session compiles: {error}")
                return
        build_data["force_include"][str(jar)] = f"{PLACE}/{builder['JAR'].name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder)
