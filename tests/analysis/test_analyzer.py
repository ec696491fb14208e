# ruff: noqa: RUF001
"""Terms and positions equal those of the reference library, for each tokenizer, language and filter."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.analysis.analyzer import Analyzer
from lance_spark.analysis.parameters import TextParameters
from lance_spark.analysis.token_filters import languages, stop_words
from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from tests.analysis.tokens import expected, relative

TEXTS = [
    "",
    "The quick brown foxes are running, because of HTTP_2 and don't 3.14",
    "Straße ÆRØ déjà-vu naïve ﬁnance ½ ① Ünïcödé ſtop İstanbul",
    "ΑΣ Οδυσσέας και η Πηνελόπη",
    "東京 は 日本 の 首都 です 한국어 中文",
    "नमस्ते दुनिया தமிழ் மொழி உலகம் சிறு",
    "a\tb\nc\rd\fe\vf g\u00a0h\u3000i\u0085j",
    "x" * 38 + " " + "y" * 39 + " " + "z" * 40 + " " + "é" * 19 + " " + "é" * 20,
    "e\u0301cole cafe\u0301 \u0301",
    "Runs\x0bof\x1call\x1fASCII\x7fsigns,it_is-so: a.b@c [d] {e} ~f` 'g' \"h\" ^i \\j /k ",
    "running runner ran easily fairly not no very before",
]


OPTIONS: list[dict[str, Any]] = [
    {},
    {"stem": False},
    {"remove_stop_words": False},
    {"lower_case": False},
    {"ascii_folding": False},
    {"max_token_length": None},
    {"max_token_length": 5},
    {"max_token_length": 0},
    {"custom_stop_words": ["fox", "東京"]},
    {"base_tokenizer": "whitespace"},
    {"base_tokenizer": "whitespace", "stem": False, "remove_stop_words": False, "ascii_folding": False},
    {"base_tokenizer": "raw"},
    {"base_tokenizer": "raw", "max_token_length": None, "stem": False},
    {"base_tokenizer": "ngram"},
    {"base_tokenizer": "ngram", "min_ngram_length": 1, "max_ngram_length": 4},
    {"base_tokenizer": "ngram", "min_ngram_length": 2, "max_ngram_length": 5, "prefix_only": True},
    {"base_tokenizer": "ngram", "stem": True, "remove_stop_words": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_terms_equal_pylance(options: dict[str, Any]) -> None:
    for text in TEXTS:
        assert relative(text, options) == expected(text, options), text


@pytest.mark.parametrize("language", languages())
def test_terms_equal_pylance_in_each_language(language: str) -> None:
    random.seed(language)
    words = sorted(stop_words(language))
    suffixes = [
        "",
        *["s", "es", "ing", "ed", "en", "ung", "lich", "ами", "ого", "ment", "mente", "ões", "lar", "ler", "ák", "ά"],
    ]
    for _ in range(200):
        text = " ".join(random.choice(words) + random.choice(suffixes) for _ in range(12))
        for stem in (True, False):
            options = {"language": language, "stem": stem}
            assert relative(text, options) == expected(text, options), text


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("Arabic", "أنتن هكذا كتاب"),
        ("Greek", "ποια στην βιβλίο τότε"),
        ("Romanian", "această carte noastră"),
        ("Turkish", "aslında kitap"),
    ],
)
def test_rare_stop_words_equal_pylance(language: str, text: str) -> None:
    options = {"language": language, "stem": False, "ascii_folding": False}
    assert relative(text, options) == expected(text, options)
    assert len(expected(text, options)) == 1


@pytest.mark.slow
def test_each_character_is_classified_and_folded_as_by_pylance() -> None:
    options: dict[str, Any] = {"stem": False, "remove_stop_words": False, "lower_case": False, "max_token_length": None}
    points = [point for point in range(0x30000) if not 0xD800 <= point <= 0xDFFF]
    for start in range(0, len(points), 5000):
        text = " ".join(f"{point:x}z{chr(point)}z" for point in points[start : start + 5000])
        unfolded = {**options, "ascii_folding": False}
        assert relative(text, unfolded) == expected(text, unfolded)
    folded = " ".join(f"z{chr(point)}z" for point in range(0x80, 0x2C00))
    assert relative(folded, options) == expected(folded, options)


def test_analyze_many_texts_equals_one_by_one() -> None:
    texts = [*TEXTS, None] * 300
    analyzer = Analyzer(TextParameters())
    found = analyzer.analyze(pa.array(texts * 10, pa.string()).slice(3))
    assert len(found.offsets) == len(texts) * 10 - 2
    single = {text: Analyzer(TextParameters()).tokens(text or "") for text in {*texts}}
    for row, text in enumerate((texts * 10)[3:]):
        start, stop = found.offsets[row : row + 2].tolist()
        terms = [analyzer.terms[term] for term in found.terms[start:stop].tolist()]
        assert terms == [token.text for token in single[text]]
        assert found.positions[start:stop].tolist() == [token.position for token in single[text]]


def test_list_of_strings_is_one_text_with_continued_positions() -> None:
    analyzer = Analyzer(TextParameters(stem=False))
    found = analyzer.analyze(pa.array([["red the", None, "blue"], None, [], ["green"]], pa.list_(pa.string())))
    assert [analyzer.terms[term] for term in found.terms.tolist()] == ["red", "blue", "green"]
    assert found.positions.tolist() == [0, 2, 0]
    assert found.offsets.tolist() == [0, 2, 2, 2, 3]


LISTS = [["fox", "dog"], [], [None], ["a", None, "b"], [""], None, ["x ", "y"], ["", ""], ["q", ""], ["", "q", "", "r"]]
OPTIONS = [
    {"base_tokenizer": "raw"},
    {"base_tokenizer": "ngram", "min_ngram_length": 2, "max_ngram_length": 3},
    {"base_tokenizer": "ngram", "min_ngram_length": 2, "max_ngram_length": 3, "prefix_only": True},
    {"base_tokenizer": "whitespace"},
    {"base_tokenizer": "simple"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())))
@pytest.mark.parametrize("rows", ["lists", "texts"])
def test_lists_and_nulls_have_the_terms_of_pylance(tmp_path: Path, options: dict[str, Any], rows: str) -> None:
    """By an index of either library and by a scan."""
    values: Any = LISTS if rows == "lists" else ["fox dog", "", None, "a b", " x"]
    dtype = pa.list_(pa.string()) if rows == "lists" else pa.string()
    plain = {"stem": False, "remove_stop_words": False, "lower_case": False}
    for builder in ("ours", "reference"):
        uri = str(tmp_path / builder)
        lance_spark.write(pa.table({"id": range(len(values)), "t": pa.array(values, dtype)}), uri)
        if builder == "ours":
            lance_spark.open(uri).create_scalar_index("t", "INVERTED", **plain, **options)
        else:
            lance.dataset(uri).create_scalar_index("t", "INVERTED", with_position=False, **plain, **options)
        for query in ("fox", "fox dog", "x d", "a b", "a  b", "q", "q ", "", " x", "x  y", "q  r"):
            columns = ["id", "_score"]
            theirs = lance.dataset(uri).to_table(full_text_query=query, columns=columns)["id"].to_pylist()
            for use_index in (True, False):
                found = lance_spark.open(uri).search(query, columns=["id"], use_index=use_index)["id"].to_pylist()
                assert sorted(found) == sorted(theirs), (builder, query, use_index)


def test_lists_in_slices_and_behind_nulls() -> None:
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 1, 3, 4], pa.int32()), pa.array(["one", "no", "no", "two"]), mask=pa.array([False, True, False])
    )
    analyzer = Analyzer(TextParameters(stem=False, remove_stop_words=False))
    found = analyzer.analyze(hidden.slice(1))
    assert [analyzer.terms[term] for term in found.terms.tolist()] == ["two"]
    assert found.offsets.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base_tokenizer": "nope"}, "unknown tokenizer 'nope'"),
        ({"base_tokenizer": "jieba/../../etc"}, "no valid name of a dictionary"),
        ({"base_tokenizer": "jieba/"}, "no valid name of a dictionary"),
        ({"split_identifiers": True}, "split_identifiers needs the tokenizer code"),
        ({"base_tokenizer": "code", "index_operators": 1}, "index_operators is 1"),
        ({"language": "english"}, "is not one of Arabic"),
        ({"min_ngram_length": 0, "base_tokenizer": "ngram"}, "0 < min <= max"),
        ({"colour": 1}, "unknown text option 'colour'"),
        ({"stem": "yes"}, "stem is 'yes'"),
        ({"custom_stop_words": "the"}, "list of words"),
    ],
)
def test_bad_option_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        TextParameters.of(options)


@pytest.mark.parametrize("name", ["lindera", "lindera/ipadic"])
def test_tokenizer_without_its_dictionary_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match="is not available"):
        TextParameters(base_tokenizer=name)


@pytest.mark.parametrize("words", ["the", 5, ["a", 1]])
def test_stop_words_are_a_list_of_words(words: object) -> None:
    with pytest.raises(InvalidInputError, match="custom_stop_words"):
        TextParameters.of({"custom_stop_words": words})
