"""Dictionaries for the tokenizers jieba/NAME of both libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

from lance_spark.analysis.tokenizers.jieba import VARIABLE

OF_PACKAGE = "jieba/of-package"


@pytest.fixture(scope="session")
def jieba_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of dictionaries, among them `OF_PACKAGE`, the one of the package jieba."""
    package = pytest.importorskip("jieba", reason="the package jieba of the extra dev is not installed")
    home = tmp_path_factory.mktemp("language-models")
    folder = home / OF_PACKAGE
    folder.mkdir(parents=True)
    (folder / "dict.txt").symlink_to(Path(package.__file__).with_name("dict.txt"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(home))
        yield home
