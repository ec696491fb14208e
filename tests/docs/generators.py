"""The scripts of `docs/generators` that write parts of its pages."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

GENERATORS = Path(__file__).parents[2] / "docs" / "generators"


def loaded(name: str) -> ModuleType:
    """The module of a script, which imports its neighbours by their names."""
    sys.path.insert(0, str(GENERATORS))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(GENERATORS))


def renewed(text: str, script: str, part: str) -> str:
    """`text` as the script would leave it."""
    return str(loaded("generated_page").renewed(text, script, part))
