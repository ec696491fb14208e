"""Options of reads that the reference library has and this one does not: each is refused with a sentence."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from lance_spark.errors import UnsupportedFeatureError

SEARCH_OPTIONS = ("nearest", "full_text_query", "prefilter", "fast_search")
"""Options of `to_table` for a search."""

_HINT = "a hint about how the reference library reads; leave it out, reads are tuned here by themselves"
_REFUSED = {
    **dict.fromkeys(
        ("batch_readahead", "fragment_readahead", "io_buffer_size", "use_stats", "late_materialization"), _HINT
    ),
    "batch_size_bytes": "not supported; batch_size bounds the rows of a batch",
    "strict_batch_size": "not supported; batch_size is an upper bound",
    "fragments": "not supported; read each of get_fragments() by itself",
    "index_segments": "not supported; all segments of an index are used, or none with use_scalar_index=False",
    "include_deleted_rows": "not supported; open an older version to see deleted rows",
    "scan_stats_callback": "not supported",
    "disable_scoring_autoprojection": "not supported; drop _distance or _score from the result",
    "row_addr_allowlist": "not supported; filter by _rowaddr IN (...)",
    "row_addr_blocklist": "not supported; filter by _rowaddr NOT IN (...)",
}
REFUSED_OPTIONS = ("scan_in_order", *_REFUSED)
"""The names of all options that are refused, one of them unless it is what reads do."""


def known_options(options: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The options that are set, all of them of `known`; ``scan_in_order=True`` is what every read does.

    Raises:
        UnsupportedFeatureError: an option of the reference library's reads.
        TypeError: an unknown option.
    """
    found = {name: value for name, value in options.items() if value is not None}
    if found.get("scan_in_order") is True:
        del found["scan_in_order"]
    for name in found:
        if name == "scan_in_order":
            raise UnsupportedFeatureError("scan_in_order=False is not supported; rows come in order", feature=name)
        if name in _REFUSED:
            raise UnsupportedFeatureError(f"{name} is {_REFUSED[name]}", feature=name)
        if name not in known:
            raise TypeError(f"a read has no keyword argument {name!r}")
    return found
