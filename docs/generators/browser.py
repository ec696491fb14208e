"""A headless browser, and pictures of what it shows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import FloatRect, Locator, Page, sync_playwright

PROGRAM = shutil.which("chromium") or shutil.which("google-chrome")
"""The browser; None if there is none."""

SCALE = 2
"""Pixels of a picture for each pixel of the page: screens with many pixels show it as sharp as text."""

COLOURS = 64


@contextmanager
def browser_page() -> Iterator[Page]:
    """An empty page.

    Raises:
        SystemExit: there is no browser.
    """
    if PROGRAM is None:
        raise SystemExit("pictures need a browser on the PATH: apt-get install chromium")
    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox"])
        yield running.new_page(device_scale_factor=SCALE)
        running.close()


def save(page: Page, area: FloatRect, path: Path) -> None:
    """Writes an area of the page as a PNG with few colours."""
    shot = Image.open(BytesIO(page.screenshot(clip=area, full_page=True, animations="disabled")))
    shot.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def area_around(*elements: Locator, margin: int = 12) -> FloatRect:
    """The area of elements, with a margin."""
    boxes = [box for element in elements if (box := element.bounding_box())]
    left, top = (min(box[side] for box in boxes) - margin for side in ("x", "y"))
    right = max(box["x"] + box["width"] for box in boxes) + margin
    bottom = max(box["y"] + box["height"] for box in boxes) + margin
    return {"x": left, "y": top, "width": right - left, "height": bottom - top}
