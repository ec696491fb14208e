"""The site is built without a warning, and makes no request to another host."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lance_spark.spark.jvm.build import MINORS

ROOT = Path(__file__).parents[2]


def test_site_loads_nothing_from_other_hosts(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 60
    loads = re.compile(
        r"<(?:script|img|iframe|source)[^>]*\ssrc=[\"']?(?:https?:)?//|<link[^>]*\srel=[\"']?(?:stylesheet|preload|icon)[^>]*//"
    )
    assert [page.relative_to(site).as_posix() for page in pages if loads.search(page.read_text())] == []


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("reference/python/dataset-write.html", "merge_insert"),
        ("guides/vector-search.html", "vector_search"),
        ("get-started/stores.html", "aws_endpoint"),
        ("notebooks/first-steps.html", "<img"),
        ("develop/changelog.html", "Unreleased"),
    ],
)
def test_page_has_its_contents(site: Path, page: str, text: str) -> None:
    assert text in (site / page).read_text()


def test_every_page_says_for_which_versions_it_is(site: Path) -> None:
    version = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version
    text = f"This page is for lance-spark {version[1]} with Apache Spark {MINORS[0]} to {MINORS[-1]}."
    without = [page.relative_to(site).as_posix() for page in site.rglob("*.html") if text not in page.read_text()]
    assert without == []


def test_links_and_pictures_lead_to_files_of_the_site(site: Path) -> None:
    missing = []
    for page in site.rglob("*.html"):
        for target in re.findall(r"\s(?:href|src)=[\"']([^\"'#?]+)", page.read_text()):
            if ":" not in target and page.name != "404.html" and not (page.parent / target).exists():
                missing.append(f"{page.relative_to(site)}: {target}")
    assert missing == []
