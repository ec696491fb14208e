"""The options of streaming queries; those of batch reads and writes beside them keep their meaning.

Names are case-insensitive, as everywhere. Spark hands its own options of a streaming query over too.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.expr.nodes import Expr
from lance_spark.expr.sql.parse import parse
from lance_spark.spark.options.options import ReadOptions, WriteOptions

LATEST = "latest"
"""The value of startingVersion for changes that are still to come."""

_OF_SPARK = frozenset({"checkpointlocation", "queryname"})


def _text(value: str) -> str:
    if not value.strip():
        raise ValueError("a text that is not empty")
    return value.strip()


def _boolean(value: str) -> bool:
    known = {"true": True, "false": False}
    if value.strip().lower() not in known:
        raise ValueError("true or false")
    return known[value.strip().lower()]


def _integer(minimum: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        text = value.strip()
        if not text.isascii() or not text.isdigit() or not minimum <= int(text) < 2**63:
            raise ValueError(f"an integer of at least {minimum}")
        return int(text)

    return parse


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
    return LATEST if text == LATEST else _integer(1)(text)


def _moment(value: str) -> datetime:
    try:
        found = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
    except ValueError:
        raise ValueError("a time such as 2026-11-21T10:00:00+00:00") from None
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
    return parse(_text(value))


_Known = Mapping[str, tuple[str, Callable[[str], Any]]]

_SINK: _Known = {
    "txnappid": ("app", _text),
    "streamingqueryid": ("app", _text),
    "key": ("key", _names),
    "delete_when": ("delete_when", _condition),
    "sequence_by": ("sequence_by", _text),
    "auto_compact": ("auto_compact", _boolean),
    "auto_compact_min_files": ("auto_compact_min_files", _integer(2)),
}

_SOURCE: _Known = {
    "startingversion": ("starting_version", _starting_version),
    "startingtimestamp": ("starting_timestamp", _moment),
    "readchangefeed": ("read_change_feed", _boolean),
    "readchangedata": ("read_change_feed", _boolean),
    "skipchangecommits": ("skip_change_commits", _boolean),
    "ignoredeletes": ("ignore_deletes", _boolean),
    "skipversions": ("skip_versions", _versions),
    "maxversionspertrigger": ("max_versions", _integer(1)),
    "maxfilespertrigger": ("max_files", _integer(1)),
    "maxbytespertrigger": ("max_bytes", _bytes),
    "maxrowspertrigger": ("max_rows", _integer(1)),
    "minrowspertrigger": ("min_rows", _integer(1)),
    "maxtriggerdelay": ("max_trigger_delay", _seconds),
    "failondataloss": ("fail_on_data_loss", _boolean),
    "newcolumns": ("new_columns", _stop_or_ignore),
    "pollinterval": ("poll_interval", _seconds),
    "holdversions": ("hold_versions", _boolean),
}


_NOT_IN_SINKS = {
    "txnversion": "the number of the epoch is the version; txnAppId names the query",
    "txnignoreold": "an epoch older than the committed one is an error",
}
_NOT_IN_SOURCES = {
    "limit": "limit the DataFrame, or the rows of a batch by maxRowsPerTrigger",
}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a streaming write.

    Attributes:
        app: the name that stands for the query; None for the query's id.
        key: the columns by which a row replaces another one; None for an append.
        delete_when: true for rows that only delete the row of their key.
        sequence_by: the column that orders the rows of one key within a batch.
        auto_compact: whether the table is compacted after epochs.
        auto_compact_min_files: how many fragments a compaction must be able to rewrite before it runs.
        write: the options of the write itself.
    """

    app: str | None = None
    key: tuple[str, ...] | None = None
    delete_when: Expr | None = None
    sequence_by: str | None = None
    auto_compact: bool = False
    auto_compact_min_files: int = 50
    write: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, options: Mapping[str, str], uri: str) -> SinkOptions:
        """From Spark's options of a write to the table at `uri`.

        Raises:
            InvalidInputError: an unknown name, an invalid value, or options that contradict each other.
        """
        found, rest = _split(options, _SINK)
        _refuse_version(rest, "a streaming write")
        _refuse_unsupported(rest, _NOT_IN_SINKS)
        WriteOptions.parse({**_without_path(rest), "path": uri})
        parsed = cls(**found, write=rest)
        for name, value in (("delete_when", parsed.delete_when), ("sequence_by", parsed.sequence_by)):
            if value is not None and parsed.key is None:
                raise InvalidInputError(f"option {name} has no effect without key; name the key columns of the table")
        if "auto_compact_min_files" in found and not parsed.auto_compact:
            raise InvalidInputError("option auto_compact_min_files has no effect without auto_compact; set it to true")
        return parsed


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a streaming read; docs/guides/streaming.md has their meaning.

    Attributes:
        max_trigger_delay, poll_interval: seconds.
        read: the options of the read itself.
    """

    starting_version: int | str | None = None
    starting_timestamp: datetime | None = None
    read_change_feed: bool = False
    skip_change_commits: bool = False
    ignore_deletes: bool = False
    skip_versions: frozenset[int] = frozenset()
    max_versions: int | None = None
    max_files: int | None = None
    max_bytes: int | None = None
    max_rows: int | None = None
    min_rows: int | None = None
    max_trigger_delay: float | None = None
    fail_on_data_loss: bool = True
    new_columns: str = "stop"
    poll_interval: float = 1.0
    hold_versions: bool = False
    read: ReadOptions = field(default_factory=lambda: ReadOptions(""))

    @classmethod
    def parse(cls, options: Mapping[str, str], uri: str) -> SourceOptions:
        """From Spark's options of a read of the table at `uri`.

        Raises:
            InvalidInputError: an unknown name, an invalid value, or options that contradict each other.
            UnsupportedFeatureError: an option that a stream does not have.
        """
        found, rest = _split(options, _SOURCE)
        _refuse_version(rest, "a streaming read", "; startingVersion or startingTimestamp says where it begins")
        _refuse_of_other_sources(rest)
        parsed = cls(**found, read=ReadOptions.parse({**_without_path(rest), "path": uri}))
        if parsed.starting_version is not None and parsed.starting_timestamp is not None:
            raise InvalidInputError("startingVersion and startingTimestamp both say where the stream begins; keep one")
        return parsed


def without_source_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options that a batch read has too."""
    return _split(options, _SOURCE)[1]


def reads_changes(options: Mapping[str, str]) -> bool:
    """Whether the options are of a stream of changes."""
    return bool(_split(options, _SOURCE)[0].get("read_change_feed", False))


def _split(options: Mapping[str, str], known: _Known) -> tuple[dict[str, Any], dict[str, str]]:
    found: dict[str, Any] = {}
    named: dict[str, str] = {}
    rest: dict[str, str] = {}
    for name, value in options.items():
        folded = name.lower()
        if folded in _OF_SPARK:
            continue
        if folded not in known:
            _refuse_misspelt(name, known)
            rest[name] = value
            continue
        attribute, parse = known[folded]
        if attribute in found:
            raise InvalidInputError(f"options {named[attribute]} and {name} are the same; keep one")
        try:
            found[attribute] = parse(value)
        except InvalidInputError as error:
            raise InvalidInputError(f"option {name}: {error}") from error
        except ValueError as error:
            raise InvalidInputError(f"option {name} is {value!r}, which is not {error}") from error
        named[attribute] = name
    return found, rest


def _refuse_misspelt(name: str, known: _Known) -> None:
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.85)
    if near:
        raise InvalidInputError(f"unknown option {name}; did you mean {near[0]}?")


def _refuse_version(options: Mapping[str, str], what: str, hint: str = "") -> None:
    for name in options:
        if name.lower() in ("version", "tag", "timestamp", "versionasof", "timestampasof"):
            raise InvalidInputError(f"option {name} is for batch reads, and {what} has none{hint}")


def _refuse_of_other_sources(options: Mapping[str, str]) -> None:
    for name in options:
        if name.lower() == "ignorechanges":
            raise UnsupportedFeatureError(
                f"option {name} would send unchanged rows again; use skipChangeCommits, which leaves out versions that "
                "change rows, or readChangeFeed, which has what they change",
                feature=name,
            )
    _refuse_unsupported(options, _NOT_IN_SOURCES)


def _refuse_unsupported(options: Mapping[str, str], hints: Mapping[str, str]) -> None:
    for name in options:
        if name.lower() in hints:
            raise UnsupportedFeatureError(f"option {name} is not supported: {hints[name.lower()]}", feature=name)


def _without_path(options: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in options.items() if name.lower() != "path"}
