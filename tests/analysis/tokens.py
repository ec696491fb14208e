"""Terms and positions by the reference library and by this one."""

from __future__ import annotations

from typing import Any

import lance

from lance_spark.analysis.analyzer import Analyzer
from lance_spark.analysis.parameters import TextParameters


def expected(text: str, options: dict[str, Any]) -> list[tuple[str, int]]:
    return [(token.text, token.position) for token in lance.tokenize(text, **options)]


def relative(text: str, options: dict[str, Any]) -> list[tuple[str, int]]:
    """Our terms with positions from the lowest one on, which is how the reference library reports them."""
    found = Analyzer(TextParameters.of(options)).tokens(text)
    first = min((token.position for token in found), default=0)
    return [(token.text, token.position - first) for token in found]
