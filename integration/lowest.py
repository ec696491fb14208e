"""The lowest versions that pyproject.toml allows, for pip: ``python -m integration.lowest [EXTRA...]``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
OWN_PYTHON = "{}.{}".format(*sys.version_info)


def project_table(project: Path = PROJECT) -> dict[str, Any]:
    """The table ``project`` of a pyproject.toml."""
    table: dict[str, Any] = tomllib.loads(project.read_text())["project"]
    return table


def lowest(extras: Iterable[str], project: Path = PROJECT, python: str = OWN_PYTHON) -> list[str]:
    """``name==version`` for each dependency and those of `extras`, the highest of its lower bounds.

    Args:
        python: the version of Python that they are for, such as ``3.13``.

    Raises:
        ValueError: a dependency of the package or of an extra for users has no lower bound.
    """
    table = project_table(project)
    texts = [*table["dependencies"], *(text for extra in extras for text in table["optional-dependencies"][extra])]
    floors: dict[str, Version] = {}
    for requirement in map(Requirement, texts):
        if requirement.marker is not None and not requirement.marker.evaluate({"python_version": python}):
            continue
        if requirement.name == table["name"]:
            continue  # An extra made of other extras, which are named beside it.
        bounds = [Version(bound.version) for bound in requirement.specifier if bound.operator in (">=", "==")]
        if not bounds:
            raise ValueError(f"{str(requirement)!r} has no lower bound")
        floors[requirement.name] = max(*bounds, floors.get(requirement.name, bounds[0]))
    return [f"{name}=={version}" for name, version in floors.items()]


if __name__ == "__main__":
    print("\n".join(lowest(sys.argv[1:])))  # noqa: T201
