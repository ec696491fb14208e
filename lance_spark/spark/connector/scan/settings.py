"""Settings of the session, `spark.sql.lance.*`.

Most disable an optimization of the planner. Without it a query has the same rows, except approximate vector searches.
"""

from __future__ import annotations

import difflib

from lance_spark.errors import InvalidInputError
from lance_spark.spark.connector.channel.registry import Session
from lance_spark.spark.options.options import ReadOptions

_PREFIX = "spark.sql.lance."
SETTINGS = frozenset(
    {
        "aggregates.enabled",
        "binaryRanges.enabled",
        "coalesceTasks.enabled",
        "defaultPython",
        "foreachBatch.idempotent",
        "inlineBytes",
        "joinFilters.enabled",
        "localResults.enabled",
        "maxStatementRuns",
        "mergeKeys.enabled",
        "planner.keepAlive",
        "selectivity.enabled",
        "textSearch.inlineBytes",
        "topN.enabled",
        "txnAppId",
        "txnVersion",
        "useScalarIndex",
        "variantPaths.enabled",
        "vectorSearch.approximate",
        "vectorSearch.inlineBytes",
    }
)
"""Names of all settings without their prefix; the JVM reads some of them."""


def check_settings(session: Session) -> None:
    """Passes if each setting of the session under `spark.sql.lance.` has an effect.

    Raises:
        InvalidInputError: one is unknown.
    """
    for name in session.setting_names:
        if name not in SETTINGS:
            folded = {known.lower(): known for known in SETTINGS}
            near = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
            hint = f"did you mean {_PREFIX}{folded[near[0]]}?" if near else f"known are {', '.join(sorted(SETTINGS))}."
            raise InvalidInputError(
                f"unknown setting {_PREFIX}{name}; {hint} RESET the wrong name, or start Spark without it"
            )


def uses_top_n(options: ReadOptions, session: Session) -> bool:
    """Whether tasks may return the first rows only, of ORDER BY with LIMIT.

    Raises:
        InvalidInputError: the setting is neither true nor false.
    """
    return options.push_down_top_n and _flag("spark.sql.lance.topN.enabled", session.top_n) is not False


def searches_approximately(session: Session) -> bool:
    """Whether a vector index may answer ORDER BY `lance_distance` with LIMIT, so that rows other than the nearest can
    be returned. Raises as `uses_top_n`."""
    return _flag("spark.sql.lance.vectorSearch.approximate", session.vector_search_approximate) is True


def uses_aggregates(session: Session) -> bool:
    """Whether metadata or tasks may answer aggregates. Raises as `uses_top_n`."""
    return _flag("spark.sql.lance.aggregates.enabled", session.aggregates) is not False


def uses_selectivity(session: Session) -> bool:
    """Whether the planner may read a sample of the rows to estimate a filter. Raises as `uses_top_n`."""
    return _flag("spark.sql.lance.selectivity.enabled", session.selectivity) is not False


def inline_bytes(session: Session) -> int:
    """The bytes of a read that the planner does by itself.

    Raises:
        InvalidInputError: the setting is not a number.
    """
    return _bytes("spark.sql.lance.inlineBytes", session.inline_bytes, 1 << 20)


def compared_inline_bytes(session: Session) -> int:
    """The bytes of vectors without an index that the planner compares by itself. Raises as `inline_bytes`."""
    return _bytes("spark.sql.lance.vectorSearch.inlineBytes", session.vector_search_inline_bytes, 512 << 20)


def analyzed_inline_bytes(session: Session) -> int:
    """The bytes of files without a text index that the planner searches by itself. Raises as `inline_bytes`."""
    return _bytes("spark.sql.lance.textSearch.inlineBytes", session.text_search_inline_bytes, 64 << 20)


def _bytes(setting: str, value: str | None, default: int) -> int:
    if value is None:
        return default
    if not (value.isascii() and value.isdigit()):
        raise InvalidInputError(f"{setting} is {value!r}; it is a number of bytes, 0 for none")
    return int(value)


def _flag(setting: str, value: str | None) -> bool | None:
    if value is None:
        return None
    text = value.strip().lower()
    if text not in ("true", "false"):
        raise InvalidInputError(f"{setting} is {value!r}; set it to true or false")
    return text == "true"
