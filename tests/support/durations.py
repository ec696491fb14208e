"""Measured durations of test modules: `pytest -n` starts the longest ones first, so that its processes end together.

`durations.json` beside this file has seconds by module. `LANCE_DURATIONS=1` in a run's environment writes those of the
modules that it ran; modules that are not listed start first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

PATH = Path(__file__).with_name("durations.json")


def scope(nodeid: str) -> str:
    """Tests that share a process: a module with its fixtures, or all of the plug-in's, which share a session."""
    module = nodeid.partition("::")[0]
    return "tests/spark" if module.startswith("tests/spark/") else module


def read_durations() -> dict[str, float]:
    """Seconds by `scope`."""
    measured: dict[str, float] = json.loads(PATH.read_text())
    return measured


def write_durations(seconds: Mapping[str, float]) -> None:
    """Replace the durations of the scopes that were run; those whose files are gone are left out."""
    root = Path(__file__).parents[2]
    together = {**read_durations(), **{name: round(value, 1) for name, value in seconds.items()}}
    kept = {name: value for name, value in sorted(together.items()) if (root / name).exists()}
    PATH.write_text(json.dumps(kept, indent=0) + "\n")
