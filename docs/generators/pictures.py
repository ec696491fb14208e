"""Makes the pictures in `docs/assets/pictures`, of which pages show some: plots, Spark's UI, a notebook, a terminal.

`python docs/generators/pictures.py` makes all of them, with arguments those groups alone: `benchmark`, `notebook`,
`spark-ui`, `terminal`. Look at what it has made before you commit it. It needs a browser on the PATH.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import benchmark_pictures
import notebook_picture
import spark_ui_pictures
import terminal_picture

FOLDER = Path(__file__).parents[1] / "assets" / "pictures"

GROUPS: dict[str, tuple[tuple[str, ...], Callable[[Path], None]]] = {
    "benchmark": (tuple(benchmark_pictures.PLOTS), benchmark_pictures.write),
    "notebook": ((notebook_picture.NOTEBOOK,), notebook_picture.write),
    "spark-ui": ((spark_ui_pictures.SCAN, spark_ui_pictures.JOIN), spark_ui_pictures.write),
    "terminal": ((terminal_picture.INSPECT,), terminal_picture.write),
}
"""The files of each group, and what writes them into a folder."""


def main() -> None:
    """Makes the groups of pictures that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"one of {', '.join(GROUPS)}; all by default")
    groups = parser.parse_args().groups or list(GROUPS)
    if unknown := set(groups) - set(GROUPS):
        parser.error(f"no group {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for group in groups:
        GROUPS[group][1](FOLDER)


if __name__ == "__main__":
    main()
