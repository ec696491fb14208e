"""Writes the tables of `docs/guides/catalogs.md` from what each catalog does over servers in memory.

`python docs/generators/generate_catalogs.py` writes; with `--check` it fails if the page is out of date.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from generated_page import main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "catalogs.md"

sys.path.insert(0, str(ROOT))

from tests.support.catalog_meetings import meetings  # noqa: E402
from tests.support.catalog_operations import OPERATIONS, outcome  # noqa: E402
from tests.support.moto import moto_server  # noqa: E402
from tests.support.tried_catalogs import CLASS, KINDS, tried_catalog  # noqa: E402

TITLES = {
    "dir": "`dir`",
    "rest": "`rest`",
    CLASS: "a class",
    "glue": "Glue",
    "hive2": "Hive 2",
    "hive3": "Hive 3",
    "iceberg": "Iceberg REST",
    "polaris": "Polaris",
    "unity": "Unity",
}


def generated() -> str:
    """A table of operations by catalogs, and one of other readers and writers."""
    cells: dict[str, list[str]] = {title: [] for title in OPERATIONS}
    others: list[str] = []
    with tempfile.TemporaryDirectory() as folder, moto_server() as bucket:
        for kind in KINDS:
            with tried_catalog(kind, Path(folder, kind), bucket) as tried:
                for title, operation in OPERATIONS.items():
                    cells[title].append(outcome(tried, operation))
                met = meetings(tried)
            if not others:
                others += [f"| | {' | '.join(met)} |", f"|---|{'---|' * len(met)}"]
            others.append(f"| {TITLES[kind]} | {' | '.join(met.values())} |")
    lines = [f"| | {' | '.join(TITLES[kind] for kind in KINDS)} |", f"|---|{'---|' * len(KINDS)}"]
    lines += [f"| {title} | {' | '.join(row)} |" for title, row in cells.items()]
    return "\n".join([*lines, "", *others])


if __name__ == "__main__":
    raise SystemExit(main(PAGE, Path(__file__).name, generated()))
