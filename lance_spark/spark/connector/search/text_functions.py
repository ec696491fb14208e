"""Characters of words, for the text functions that Spark evaluates in the JVM."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.analysis.alphabet import alphanumeric_runs
from lance_spark.spark.connector.channel.registry import Call, operation


@dataclass(frozen=True, slots=True)
class LettersRequest:
    """Asks for the characters that words are made of."""


@dataclass(frozen=True, slots=True)
class Letters:
    """The first and the last code point of each run of letters and digits, one after the other, ascending."""

    runs: tuple[int, ...]


@operation("text.letters")
def letters(_request: LettersRequest, _call: Call) -> Letters:
    """The characters that words are made of."""
    return Letters(tuple(bound for run in alphanumeric_runs() for bound in run))
