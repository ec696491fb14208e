"""The connector's own loop of planner workers, for Spark 4.0 and 4.1."""

from __future__ import annotations

import importlib
import io
import struct
import sys
from pathlib import Path

import pytest


def spark_files(folder: Path, *includes: str) -> io.BytesIO:
    """Spark's message about the files of an application: the folder, and names of packages in it."""
    texts = [str(folder), *includes]
    parts = [struct.pack("!i", len(text)) + text.encode() for text in texts]
    return io.BytesIO(parts[0] + struct.pack("!i", len(includes)) + b"".join(parts[1:]))


@pytest.mark.until("4.1", "Spark has this loop from 4.2 on")
def test_zip_files_are_listed_again_only_when_the_path_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lance_spark.spark.compat import worker

    listed: list[bool] = []
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(importlib, "invalidate_caches", lambda: listed.append(True))
    counts = []
    for includes in ((), (), ("a.zip",), ("a.zip",)):
        worker._setup_files(spark_files(tmp_path, *includes))
        counts.append(len(listed))
    assert counts == [1, 1, 2, 2]
    assert sys.path[1:3] == [str(tmp_path / "a.zip"), str(tmp_path)]
