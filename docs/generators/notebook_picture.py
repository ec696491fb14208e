"""A picture of a notebook with its outputs, as Jupyter shows it."""

from __future__ import annotations

from pathlib import Path

from browser import area_around, browser_page, save
from nbconvert import HTMLExporter

NOTEBOOK = "notebook.png"

_SOURCE = Path(__file__).parents[2] / "examples" / "notebooks" / "first-steps.ipynb"
_FIRST, _LAST = "Compare the versions", "plt.show()"
"""Texts of the cells at which the picture begins and ends."""


def write(folder: Path) -> None:
    """Writes the picture into the folder."""
    document, _ = HTMLExporter(template_name="lab").from_filename(str(_SOURCE))
    with browser_page() as page:
        page.set_viewport_size({"width": 1000, "height": 900})
        # The document names scripts of other hosts, for formulas and widgets, which no cell of this notebook has.
        page.route("http*://**", lambda route: route.abort())
        page.set_content(document)
        first, last = (page.locator(".jp-Cell", has_text=text).last for text in (_FIRST, _LAST))
        save(page, area_around(first, last, margin=0), folder / NOTEBOOK)
