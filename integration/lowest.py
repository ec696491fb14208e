"""The lowest versions that pyproject.toml allows, for pip: ``python -m integration.lowest [EXTRA...]``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?P<extras>\[[^\]]*\])?(?P<bounds>[^;]*)")
_FLOOR = re.compile(r"(?:>=|==)\s*([0-9][^,\s]*)")


def lowest(extras: Iterable[str], project: Path = PROJECT) -> list[str]:
    """``name==version`` for each dependency and those of `extras`, the highest of its lower bounds; others as they are.

    Raises:
        ValueError: a dependency of the package or of an extra for users has no lower bound.
    """
    table: dict[str, Any] = tomllib.loads(project.read_text())["project"]
    requirements = list(table["dependencies"])
    for extra in extras:
        requirements += table["optional-dependencies"][extra]
    floors: dict[str, str] = {}
    for requirement in requirements:
        match = _REQUIREMENT.match(requirement)
        assert match is not None
        if match["name"] == table["name"]:
            continue  # An extra made of other extras, which are named beside it.
        found = _FLOOR.search(match["bounds"])
        if found is None:
            raise ValueError(f"{requirement!r} has no lower bound")
        floors[match["name"]] = max(floors.get(match["name"], "0"), found[1], key=_numbers)
    return [f"{name}=={version}" for name, version in floors.items()]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


if __name__ == "__main__":
    print("\n".join(lowest(sys.argv[1:])))  # noqa: T201
