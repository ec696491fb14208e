# ruff: noqa: RUF001
"""The tokenizers jieba/NAME cut as the reference library."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from lance_spark.analysis.analyzer import Analyzer
from lance_spark.analysis.parameters import TextParameters
from lance_spark.analysis.tokenizers.jieba import VARIABLE, hidden_markov_model
from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from tests.analysis.tokens import expected, relative
from tests.support.jieba_models import OF_PACKAGE, jieba_home

__all__ = ["jieba_home"]

AS_CUT: dict[str, Any] = {
    "base_tokenizer": OF_PACKAGE,
    "stem": False,
    "remove_stop_words": False,
    "lower_case": False,
    "ascii_folding": False,
    "max_token_length": None,
}

TEXTS = [
    "",
    "我来到北京清华大学",
    "他来到了网易杭研大厦，小明硕士毕业于中国科学院计算所，后在日本京都大学深造。",
    "昨天下午三点半，王小虎和李梅花在上海浦东机场等了两个多小时，飞机才从广州起飞。",
    "這家餐廳的牛肉麵非常好吃，可惜週末總是要排隊。",
    "The price was 3.14% of 10-20 USD (约合人民币一百五十元)\r\nC++、C# and .NET 4.8_beta",
    "穷鸟入怀，瘌痢碼地仓㐀䶵豈𠀀𫝀鿿",
    "　全角　空格\tและภาษาไทย 日本語のテキスト 한국어",
]


@pytest.mark.slow
@pytest.mark.usefixtures("jieba_home")
def test_texts_equal_pylance() -> None:
    assert relative(TEXTS[1], AS_CUT)[3:] == [("清华", 5), ("华大", 6), ("大学", 7), ("清华大学", 5)]
    # Together, because the reference library reads the dictionary for each text.
    together = "\n".join(TEXTS)
    for options in (AS_CUT, {"base_tokenizer": OF_PACKAGE}):
        assert relative(together, options) == expected(together, options)


@pytest.mark.slow
def test_random_texts_equal_pylance(jieba_home: Path) -> None:
    lines = (jieba_home / OF_PACKAGE / "dict.txt").read_text("utf-8").splitlines()
    words = [line.split()[0] for line in lines]
    letters = [*map(chr, range(0x4E00, 0xA000)), *"㐀䶵豈𠀀𫝀"]
    other = [*"abAB019 .,-+#&_%\r\n，。「」　éß٣"]
    choose = random.Random(4)
    for _ in range(10):
        parts = []
        for _ in range(3000):
            kind = choose.random()
            word = choose.choice(words if kind < 0.6 else letters if kind < 0.8 else other)
            parts.append(word[: choose.randint(1, 3)] if kind < 0.2 else word)
        text = "".join(parts)
        assert relative(text, AS_CUT) == expected(text, AS_CUT)


def test_dictionaries_of_a_configuration(jieba_home: Path) -> None:
    folder = jieba_home / "jieba" / "small"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"main": "words", "users": ["more", "even-more"]}))
    (folder / "words").write_text("北京 10 ns\n大学 7\n北京大学 2 nt\n学生 5\n\n生 100\n京大\n", "utf-8")
    (folder / "more").write_text("大学生 60\n北京 1\n", "utf-8")
    (folder / "even-more").write_text("的", "utf-8")
    options = {**AS_CUT, "base_tokenizer": "jieba/small"}
    for text in ("北京大学生的学生", "北京的大学", "大学生在北京大学", "京大大学", "的"):
        assert relative(text, options) == expected(text, options), text


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "dict.txt"),
        ({"dict.txt": b"word many\n"}, "frequency 'many'"),
        ({"dict.txt": b"\xff 1\n"}, "utf-8"),
        ({"config.json": b"[1]"}, "cannot be read"),
        ({"config.json": b"{"}, "cannot be read"),
        ({"config.json": b'{"main": 3}'}, "cannot be read"),
    ],
)
def test_bad_dictionary_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes], message: str
) -> None:
    folder = tmp_path / "jieba" / "bad"
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(InvalidInputError, match=message):
        Analyzer(TextParameters(base_tokenizer="jieba/bad")).tokens("大学")


def test_missing_dictionary_and_package_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    parameters = TextParameters(base_tokenizer="jieba")
    with pytest.raises(UnsupportedFeatureError, match=f"needs its dictionary in {tmp_path}/jieba/default; {VARIABLE}"):
        Analyzer(parameters).tokens("大学")
    (tmp_path / "jieba" / "default").mkdir(parents=True)
    (tmp_path / "jieba" / "default" / "dict.txt").write_text("大学 1\n", "utf-8")
    hidden_markov_model.cache_clear()
    monkeypatch.setitem(sys.modules, "jieba.finalseg", None)
    with pytest.raises(UnsupportedFeatureError, match=r"install lance-spark\[jieba\]"):
        Analyzer(parameters).tokens("大学")
