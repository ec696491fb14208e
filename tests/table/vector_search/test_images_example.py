"""The example that searches pictures finds pictures of the same digit, and draws them."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "examples" / "search_images.py"


def test_images_example_finds_and_draws_pictures_of_the_same_digit(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn, which brings the pictures of the example, is not installed")
    done = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, check=True)
    share = re.search(r"digit of the query: (\d+)%", done.stdout)
    assert share is not None, done.stdout
    assert int(share.group(1)) >= 95
    assert "by words: ['a handwritten seven', 'a handwritten seven', 'a handwritten seven']" in done.stdout
    assert "a handwritten" in done.stdout.split("by both:")[1]
    plot = (tmp_path / "hits.png").read_bytes()
    assert plot.startswith(b"\x89PNG")
    assert struct.unpack(">II", plot[16:24]) == (10 * 36 + 18, 10 * 36)
