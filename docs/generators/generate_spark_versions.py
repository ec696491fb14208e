"""Writes the table of `docs/reference/spark-versions.md` from the tests of features.

`python docs/generators/generate_spark_versions.py` writes; with `--check` it fails if the page is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from generated_page import main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "spark-versions.md"

sys.path.insert(0, str(ROOT))

from lance_spark.spark.jvm.build import MINORS  # noqa: E402
from tests.connector.spark_versions import test_features  # noqa: E402
from tests.support.connector.features import Feature  # noqa: E402
from tests.support.spark_versions import minor_of  # noqa: E402


def features() -> list[Feature]:
    """The features that have a test, in the order of the tests."""
    return [test.feature for test in vars(test_features).values() if hasattr(test, "feature")]


def generated() -> str:
    """The table: a row for each feature, a column for each minor version of Spark."""
    lines = [f"| feature | {' | '.join(MINORS)} | before |", f"|---|{'---|' * len(MINORS)}---|"]
    for item in features():
        marks = ["yes" if item.is_in(minor_of(minor)) else "-" for minor in MINORS]
        lines.append(f"| {item.title} | {' | '.join(marks)} | {item.instead} |")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main(PAGE, Path(__file__).name, generated()))
