"""The options of streaming queries; those of batch reads and writes beside them keep their meaning.

Names are case-insensitive, as everywhere. Spark hands its own options of a streaming query over too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.expr.nodes import Expr
from lance_spark.spark.option_values import Option, nearest_option
from lance_spark.spark.options.names import option_value
from lance_spark.spark.options.options import ReadOptions, WriteOptions
from lance_spark.spark.options.stream_names import SINK, SOURCE

_OF_SPARK = frozenset({"checkpointlocation", "queryname"})


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
        found, rest = _split(options, SINK)
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
        found, rest = _split(options, SOURCE)
        _refuse_version(rest, "a streaming read", "; startingVersion or startingTimestamp says where it begins")
        _refuse_of_other_sources(rest)
        parsed = cls(**found, read=ReadOptions.parse({**_without_path(rest), "path": uri}))
        if parsed.starting_version is not None and parsed.starting_timestamp is not None:
            raise InvalidInputError("startingVersion and startingTimestamp both say where the stream begins; keep one")
        return parsed


def without_source_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options that a batch read has too."""
    return _split(options, SOURCE)[1]


def reads_changes(options: Mapping[str, str]) -> bool:
    """Whether the options are of a stream of changes."""
    return bool(_split(options, SOURCE)[0].get("read_change_feed", False))


def _split(options: Mapping[str, str], known: Mapping[str, Option]) -> tuple[dict[str, Any], dict[str, str]]:
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
        option = known[folded]
        assert option.attribute is not None, "each option of a stream has an effect"
        if option.attribute in found:
            raise InvalidInputError(f"options {named[option.attribute]} and {name} are the same; keep one")
        found[option.attribute] = option_value(name, value, option)
        named[option.attribute] = name
    return found, rest


def _refuse_misspelt(name: str, known: Mapping[str, Option]) -> None:
    near = nearest_option(name, known, cutoff=0.85)
    if near is not None:
        raise InvalidInputError(f"unknown option {name}; did you mean {near}?")


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
