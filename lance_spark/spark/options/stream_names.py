"""The names of the options of streaming queries, beside those of batch reads and writes."""

from __future__ import annotations

from datetime import datetime, timezone

from lance_spark.expr.nodes import Expr
from lance_spark.expr.sql.parse import parse
from lance_spark.spark.option_values import (
    Option,
    boolean_value,
    by_folded_name,
    integer_value,
    text_value,
    timestamp_value,
)

LATEST = "latest"
"""The value of startingVersion for changes that are still to come."""

_BYTE_UNITS = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}


def _bytes(value: str) -> int:
    text = value.strip().lower()
    digits = text.rstrip("bkmg")
    unit = text[len(digits) :]
    if not digits.isascii() or not digits.isdigit() or unit not in _BYTE_UNITS or not int(digits):
        raise ValueError("a number of bytes such as 10485760, 512k, 10m or 1g")
    return int(digits) * _BYTE_UNITS[unit]


def _seconds(value: str) -> float:
    """A duration such as 1s, 500ms or 5m, in seconds."""
    text = value.strip().lower()
    for unit, factor in (("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)):
        number = text[: -len(unit)].strip()
        if text.endswith(unit) and number.isascii() and number.isdigit():
            return int(number) * factor
    raise ValueError("a duration such as 500ms, 1s, 5m or 1h")


def _versions(value: str) -> frozenset[int]:
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise ValueError("a list of versions such as 12,15")
    return frozenset(map(int, parts))


def _starting_version(value: str) -> int | str:
    text = value.strip().lower()
    return LATEST if text == LATEST else integer_value(1)(text)


def _moment(value: str) -> datetime:
    found = timestamp_value(value)
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def _stop_or_ignore(value: str) -> str:
    if value.strip().lower() not in ("stop", "ignore"):
        raise ValueError("stop or ignore")
    return value.strip().lower()


def _names(value: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in value.split(","))
    if not all(names) or len(set(names)) != len(names):
        raise ValueError("a list of different columns such as id or region,id")
    return names


def _condition(value: str) -> Expr:
    return parse(text_value(value))


SINK = by_folded_name(
    {
        "txnAppId": Option("app", text_value),
        "streamingQueryId": Option("app", text_value),
        "key": Option("key", _names),
        "delete_when": Option("delete_when", _condition),
        "sequence_by": Option("sequence_by", text_value),
        "auto_compact": Option("auto_compact", boolean_value),
        "auto_compact_min_files": Option("auto_compact_min_files", integer_value(2)),
    }
)
SOURCE = by_folded_name(
    {
        "startingVersion": Option("starting_version", _starting_version),
        "startingTimestamp": Option("starting_timestamp", _moment),
        "readChangeFeed": Option("read_change_feed", boolean_value),
        "readChangeData": Option("read_change_feed", boolean_value),
        "skipChangeCommits": Option("skip_change_commits", boolean_value),
        "ignoreDeletes": Option("ignore_deletes", boolean_value),
        "skipVersions": Option("skip_versions", _versions),
        "maxVersionsPerTrigger": Option("max_versions", integer_value(1)),
        "maxFilesPerTrigger": Option("max_files", integer_value(1)),
        "maxBytesPerTrigger": Option("max_bytes", _bytes),
        "maxRowsPerTrigger": Option("max_rows", integer_value(1)),
        "minRowsPerTrigger": Option("min_rows", integer_value(1)),
        "maxTriggerDelay": Option("max_trigger_delay", _seconds),
        "failOnDataLoss": Option("fail_on_data_loss", boolean_value),
        "newColumns": Option("new_columns", _stop_or_ignore),
        "pollInterval": Option("poll_interval", _seconds),
        "holdVersions": Option("hold_versions", boolean_value),
    }
)
