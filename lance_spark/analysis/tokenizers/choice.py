"""The tokenizer that the parameters of an analysis name."""

from __future__ import annotations

from lance_spark.analysis.parameters import TextParameters
from lance_spark.analysis.tokenizers.base import Tokenizer
from lance_spark.analysis.tokenizers.code import code_tokenizer
from lance_spark.analysis.tokenizers.icu import icu_tokenizer
from lance_spark.analysis.tokenizers.jieba import jieba_tokenizer
from lance_spark.analysis.tokenizers.words import word_tokenizer


def tokenizer_of(parameters: TextParameters) -> Tokenizer:
    """The tokenizer.

    Raises:
        UnsupportedFeatureError: it needs a package or a dictionary that is not there.
        InvalidInputError: its dictionary cannot be read.
    """
    if parameters.base_tokenizer == "code":
        return code_tokenizer(parameters)
    if parameters.base_tokenizer.startswith("jieba"):
        return jieba_tokenizer(parameters)
    if parameters.base_tokenizer.startswith("icu"):
        return icu_tokenizer(parameters)
    return word_tokenizer(parameters)
