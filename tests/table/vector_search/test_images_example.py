"""The examples with pictures of digits find pictures of the same digit, and draw what they have found."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

EXAMPLES = Path(__file__).parents[3] / "examples"
NEEDS_SKLEARN = "scikit-learn, which brings the pictures of the example, is not installed"


def run(name: str, folder: Path) -> str:
    """What an example prints."""
    pytest.importorskip("sklearn", reason=NEEDS_SKLEARN)
    command = [sys.executable, str(EXAMPLES / name), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_images_example_finds_and_draws_pictures_of_the_same_digit(tmp_path: Path) -> None:
    printed = run("search_images.py", tmp_path)
    share = re.search(r"digit of the query: (\d+)%", printed)
    assert share is not None, printed
    assert int(share.group(1)) >= 95
    assert "by words: ['a handwritten seven', 'a handwritten seven', 'a handwritten seven']" in printed
    assert "a handwritten" in printed.split("by both:")[1]
    with Image.open(tmp_path / "hits.png") as plot:
        assert (plot.format, plot.size) == ("PNG", (400, 400))
        assert plot.convert("L").getextrema() == (0, 255), "the darkest and the brightest pixel"


@pytest.mark.slow
def test_recall_example_draws_the_curves_of_both_libraries(tmp_path: Path) -> None:
    printed = run("recall_curves.py", tmp_path)
    recalls: dict[str, list[float]] = {}
    for name, recall in re.findall(r"(\w+): \d+ of 64 partitions, recall ([\d.]+)", printed):
        recalls.setdefault(name, []).append(float(recall))
    assert set(recalls) == {"lance_spark", "reference"}
    for found in recalls.values():
        assert len(found) == 6
        assert found == sorted(found)
        assert found[-1] > 0.97
    # Both read the same partitions of the same index.
    np.testing.assert_allclose(recalls["lance_spark"], recalls["reference"], atol=0.02)
    picture = ElementTree.parse(tmp_path / "recall.svg").getroot()
    for name in ("lance_spark", "reference"):
        (line,) = picture.iterfind(f".//{{*}}g[@id='{name}']")
        assert len(list(line.iterfind(".//{*}use"))) == 6, "a point for each number of partitions"
