"""The site, built once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the site."""
    built = subprocess.run(
        [sys.executable, "docs/generators/site.py"], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return ROOT / "build" / "site"
