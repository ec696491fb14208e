from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.support.moto import s3_bucket

__all__ = ["s3_bucket"]


@pytest.fixture(params=["local", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The root of a namespace that does not exist yet."""
    return str(tmp_path / "root") if request.param == "local" else f"memory://{uuid.uuid4().hex}"
