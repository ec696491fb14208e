"""Where tests put a catalog of directories."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

__all__ = ["root"]


@pytest.fixture(params=["local", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The root of a namespace that does not exist yet."""
    return str(tmp_path / "root") if request.param == "local" else f"memory://{uuid.uuid4().hex}"
