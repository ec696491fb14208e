"""`docs/design/041-process-wide-caches.md` lists the caches that the code has."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.docs.generators import loaded, renewed


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return loaded("generate_caches")


def test_page_is_up_to_date(generator: ModuleType) -> None:
    text = generator.PAGE.read_text(encoding="utf-8")
    assert renewed(text, "generate_caches.py", generator.generated()) == text


def test_memos_of_every_form_are_seen(generator: ModuleType) -> None:
    by_name = {(memo.path, memo.name): memo for memo in generator.memos()}
    assert by_name["layouts/registry.py", "parse_page"].key == ("type_url", "message")
    assert by_name["layouts/registry.py", "parse_page"].bound == 4096
    assert by_name["table/manifests/fragment_reuse.py", "_cached"].bound == 8
    assert by_name["table/operations/manifest_builder.py", "writer_version"].key == ()


def test_containers_are_seen(generator: ModuleType) -> None:
    seen = {(item.path, item.name) for item in generator.containers()}
    assert {("storage/cache.py", "shared"), ("file/metadata.py", "_columns")} <= seen
    assert seen <= generator._OWNERS.keys()


def test_values_in_the_shared_cache_are_seen(generator: ModuleType) -> None:
    seen = generator.stored()
    assert ("table/manifests/history.py", "manifest") in seen
    assert ("index/files.py", "index file") in seen
