"""The site in a real browser: search, narrow screens, dark colours, and no request to another host."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.docs.generators import loaded

BROWSER = loaded("browser").PROGRAM

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium on the PATH: apt-get install chromium")


class Quiet(SimpleHTTPRequestHandler):
    """The files of a folder, without a log."""

    def log_message(self, format: str, *args: object) -> None:
        """Writes nothing."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The address at which the site is served."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser without a window."""
    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """An empty page; the test fails if it asks another host for anything, or if a script fails."""
    page = browser.new_page()
    hosts: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: hosts.append(urlsplit(request.url).netloc))
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    page.close()
    assert set(hosts) <= {urlsplit(address).netloc, ""}
    assert errors == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("merge", "guides/row-level-changes"),
        ("vector index", "guides/vector-search"),
        ("S3 credentials", "stores"),
    ],
)
def test_search_finds_the_page(page: Page, address: str, words: str, expected: str) -> None:
    page.goto(f"{address}/index.html")
    page.locator(".md-search__button").click()
    page.keyboard.type(words)
    results = page.locator("a[href*='?h=']")
    results.first.wait_for()
    assert expected in " ".join(str(link.get_attribute("href")) for link in results.all()[:10])


@pytest.mark.parametrize("name", ["index", "guides/vector-search", "reference/options", "notebooks/pictures"])
def test_narrow_page_does_not_scroll_sideways(page: Page, address: str, name: str) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"{address}/{name}.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")


@pytest.mark.parametrize(("scheme", "name"), [("light", "default"), ("dark", "slate")])
def test_colours_are_those_of_the_system(page: Page, address: str, scheme: Literal["light", "dark"], name: str) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto(f"{address}/index.html")
    assert page.locator("body").get_attribute("data-md-color-scheme") == name
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    levels = [int(level) for level in re.findall(r"[0-9]+", background)[:3]]
    assert (sum(levels) < 3 * 64) == (scheme == "dark")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_plot_is_that_for_the_colours(page: Page, address: str, scheme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto(f"{address}/operate/benchmarks.html")
    shown = [str(image.get_attribute("src")) for image in page.locator("article img").all() if image.is_visible()]
    assert [source.partition("#")[0] for source in shown] == [f"../assets/pictures/benchmark-{scheme}.svg"]
