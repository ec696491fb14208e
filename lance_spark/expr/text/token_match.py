"""Words in string columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_spark.analysis.analyzer import Analyzer, is_text
from lance_spark.analysis.parameters import AS_WRITTEN
from lance_spark.errors import InvalidInputError
from lance_spark.expr.values import Family, Operand, null_like, required_family


def contains_tokens(value: Operand, words: str) -> Operand:
    """Whether each value has all tokens of `words`; NULL for null.

    Raises:
        InvalidInputError: the value is no string.
    """
    family = required_family(value, "contains_tokens")
    if family is Family.NULL:
        return null_like(value, pa.bool_())
    if family is not Family.STRING:
        raise InvalidInputError(f"contains_tokens is not defined for {value.type}")
    texts = pa.array([value.as_py()], pa.large_string()) if isinstance(value, pa.Scalar) else value
    analyzer = Analyzer(AS_WRITTEN)
    wanted = np.unique(analyzer.analyze(pa.array([words], pa.large_string())).terms)
    found = analyzer.analyze(texts.cast(pa.large_string()))
    owners = np.repeat(np.arange(len(texts)), np.diff(found.offsets))
    kept = np.ones(len(texts), np.bool_)
    for term in wanted.tolist():
        has_term = np.zeros(len(texts), np.bool_)
        has_term[owners[found.terms == term]] = True
        kept &= has_term
    truth = pa.array(kept, mask=texts.is_null().to_numpy(zero_copy_only=False))
    return truth[0] if isinstance(value, pa.Scalar) else truth


def check_searchable(values: Sequence[Operand], num_rows: int) -> Operand:
    """The value of a text search for no rows.

    Raises:
        InvalidInputError: a column is neither text nor JSON, or there are rows: the search needs the table's text
            index and is not done row by row.
    """
    for value in values:
        # The search itself, which knows the fields, tells JSON documents from other binaries.
        if not (is_text(value.type) or pa.types.is_large_binary(value.type)):
            raise InvalidInputError(f"text search needs strings, lists of strings or JSON, not {value.type}")
    if num_rows:
        raise InvalidInputError(
            "text search works in filters of reads: scan, to_table, count_rows and search; elsewhere, select the keys "
            "of the rows first"
        )
    return pa.array([], pa.bool_())
