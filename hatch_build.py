"""Takes the connector's jars and the kernels' object files along into wheel and sdist.

The jars are the current ones of the tree, and that of the Spark it sees; the object files those that the tree has
(``python -m lance_spark.kernels.warm``).

Each minor version of Spark has a jar. Those of the tree are taken that were made of the same sources; that of the
Spark beside the build is compiled if the tree lacks it. A build in isolation sees no Spark. Where the package has no
jar, the first session compiles its Java sources (`lance_spark.spark.jvm.jar`).
"""

from __future__ import annotations

import runpy
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = "lance_spark/spark/jvm"
OBJECTS = "lance_spark/kernels/objects"


class FilesHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the jars and object files that can be had, and goes on without the others."""

    PLUGIN_NAME = "custom"
    _folder: str | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        builder = runpy.run_path(str(Path(self.root) / PLACE / "build.py"))
        jars = [builder["jar_of"](minor) for minor in builder["MINORS"] if builder["is_current"](minor)]
        try:
            compiled = self._compiled(builder)
        except builder["JarBuildError"] as error:
            self.app.display_info(f"with {len(jars)} jars of the connector; the first session compiles others: {error}")
        else:
            jars += [compiled] if compiled is not None else []
        for jar in jars:
            build_data["force_include"][str(jar)] = f"{PLACE}/{jar.name}"
        for file in (Path(self.root) / OBJECTS).glob("*.o"):
            build_data["force_include"][str(file)] = f"{OBJECTS}/{file.name}"

    def _compiled(self, builder: dict[str, Any]) -> Path | None:
        """The jar for the Spark that is here; None if the tree has it."""
        minor = builder["minor_of"](builder["spark_version"](builder["spark_jars"]()))
        if builder["is_current"](minor):
            return None
        # Beside the tree: whoever has the package installed as editable keeps the jar that is there.
        self._folder = tempfile.mkdtemp(prefix="lance-spark-")
        jar: Path = builder["build"](Path(self._folder) / builder["jar_of"](minor).name)
        return jar

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder)
