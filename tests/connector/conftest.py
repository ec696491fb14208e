"""Fixtures of the connector's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.moto import s3_bucket

__all__ = ["s3_bucket"]

INLINE_BYTES = "spark.sql.lance.inlineBytes"


@pytest.fixture(autouse=True)
def small_reads(request: pytest.FixtureRequest) -> Iterator[None]:
    """Small reads are done by the planner, as for users; tests with the marker `tasks` read all in tasks."""
    if "spark" not in request.fixturenames:
        yield
        return
    conf = request.getfixturevalue("spark").conf
    if request.node.get_closest_marker("tasks"):
        conf.set(INLINE_BYTES, "0")
    else:
        conf.unset(INLINE_BYTES)
    yield
    conf.unset(INLINE_BYTES)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A path without a table."""
    return str(tmp_path / "table")
