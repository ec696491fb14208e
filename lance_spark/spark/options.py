"""The options of the data source, parsed once into frozen dataclasses; only this module knows their names.

Names are case-insensitive. An unknown name is rejected, with the nearest known one in the message: ignoring a
misspelt option would read or write something other than intended. For options of the format that do not apply here the
message says so.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.expr.nodes import Expr
from lance_spark.expr.sql import parse as parse_filter
from lance_spark.file_version import FileVersion
from lance_spark.spark.column_properties import Properties, split_name
from lance_spark.spark.property_names import OF_ONE_WRITE, check_properties
from lance_spark.table.manifests.epoch_mark import EpochMark
from lance_spark.table.reading.scan import DEFAULT_WINDOW_BYTES
from lance_spark.table.refs.refs import MAIN
from lance_spark.table.writing.write import DEFAULT_MAX_BYTES_PER_FILE, DEFAULT_MAX_ROWS_PER_FILE, FileLimits

_log = logging.getLogger(__name__)

DEFAULT_PARTITION_BYTES = 128 << 20

DEFAULT_BATCH_ROWS = 32768
"""Each batch is transferred between Python and the JVM, which has a fixed cost."""

BATCH_BYTES = 8 << 20
"""The approximate maximum size of a batch, so that wide rows do not fill the memory of a task."""
_STORAGE = "storage."

STATIC, DYNAMIC = "static", "dynamic"
"""Values of partitionOverwriteMode: an overwrite replaces all rows, or only partitions with new rows."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of a read (see docs/options.md)."""

    path: str
    version: int | None = None
    tag: str | None = None
    branch: str | None = None
    timestamp: datetime | None = None
    batch_size: int = DEFAULT_BATCH_ROWS
    max_batch_bytes: int = DEFAULT_WINDOW_BYTES
    columns: tuple[str, ...] | None = None
    filter: Expr | None = None
    limit: int | None = None
    with_row_id: bool = False
    with_row_address: bool = False
    push_down_filters: bool = False
    push_down_top_n: bool = True
    zone_maps: bool | None = None
    use_scalar_index: bool | None = None
    target_partition_bytes: int = DEFAULT_PARTITION_BYTES
    storage_options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Parses Spark's options.

        Raises:
            InvalidInputError: an unknown name, an invalid value, or contradictory options.
            UnsupportedFeatureError: an option that only the connector supports.
        """
        parsed = cls(**_parse(options, _READ))
        _check_one_version(parsed)
        return parsed


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of a write (see docs/options.md)."""

    path: str
    branch: str | None = None
    max_rows_per_file: int | None = None
    max_bytes_per_file: int | None = None
    file_format_version: str | None = None
    enable_stable_row_ids: bool | None = None
    use_large_var_types: bool = False
    commit_message: str | None = None
    merge_schema: bool = False
    txn_app_id: str | None = None
    txn_version: int | None = None
    txn_ignore_old: bool = False
    distribution: str | None = None
    partition_overwrite_mode: str | None = None
    column_properties: Properties = field(default_factory=dict)
    storage_options: Mapping[str, str] = field(default_factory=dict)
    without_effect: tuple[str, ...] = ()

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """Parses Spark's options.

        Raises:
            InvalidInputError: an unknown name, or an invalid value.
            UnsupportedFeatureError: an option that only the connector supports.
        """
        plain, properties = _split(options)
        ignored = tuple(name for name in plain if name.lower() in _WITHOUT_EFFECT)
        return cls(**_parse(plain, _WRITE), column_properties=properties, without_effect=ignored)

    def limits(self, config: Mapping[str, str]) -> FileLimits:
        """The maximum size of data files, from these options or else from the properties `config` of the table.

        Raises:
            InvalidInputError: a property has an invalid value.
        """
        table = TableDefaults.of(config)
        return FileLimits(
            self.max_rows_per_file or table.max_rows_per_file or DEFAULT_MAX_ROWS_PER_FILE,
            self.max_bytes_per_file or table.max_bytes_per_file or DEFAULT_MAX_BYTES_PER_FILE,
        )

    def mark(self) -> EpochMark | None:
        """The mark by which a write that was done is not done again; None if the options name none.

        Raises:
            InvalidInputError: only one of txnAppId and txnVersion is set.
        """
        if self.txn_app_id is None and self.txn_version is None and not self.txn_ignore_old:
            return None
        if self.txn_app_id is None or self.txn_version is None:
            raise InvalidInputError("options txnAppId and txnVersion name a write together; set both")
        return EpochMark(self.txn_app_id, self.txn_version, self.txn_ignore_old)

    def log_without_effect(self) -> None:
        """Tells the user's log which options were taken and do nothing; see docs/options.md."""
        _log_without_effect(self.without_effect, _WITHOUT_EFFECT)

    def check_without_partitions(self) -> None:
        """Checks that the options are valid for a plain table.

        Raises:
            InvalidInputError: rows are to be distributed by partition.
        """
        if self.distribution not in (None, "none"):
            raise InvalidInputError("option distribution is for partitioned tables; repartition the rows instead")

    def check_makes_table(self, branch: str | None) -> None:
        """Checks that the options are valid for a write that creates or replaces the table, on its branch `branch`.

        Raises:
            InvalidInputError: another branch is requested. Spark passes it too late to choose the table by it.
        """
        if self.branch is not None and self.branch != (branch or MAIN):
            raise InvalidInputError(
                f"option branch is {self.branch!r}, but the statement makes or replaces the table itself; append to "
                "the branch of a table that is there, overwrite its rows, or name it db.table.branch_<name>"
            )


@dataclass(frozen=True, slots=True)
class TableDefaults:
    """The defaults of all writes in a table's properties; None where there is none."""

    max_rows_per_file: int | None = None
    max_bytes_per_file: int | None = None
    distribution: str | None = None

    @classmethod
    def of(cls, config: Mapping[str, str]) -> TableDefaults:
        """From the table's config; other entries are ignored.

        Raises:
            InvalidInputError: an invalid value.
        """
        mine = {name: value for name, value in config.items() if name.lower() in _TABLE_DEFAULTS}
        parsed = _parse(mine, _WRITE, needs_path=False)
        return cls(**{name: value for name, value in parsed.items() if name != "storage_options"})


DIRECTORY, REST = "dir", "rest"
_HEADER = "header."


@dataclass(frozen=True, slots=True)
class CatalogOptions:
    """The settings of a catalog, ``spark.sql.catalog.<name>.*``.

    Attributes:
        impl: the namespace: "dir", a folder, or "rest", a server.
        root: the folder.
        uri, headers: the server, and the headers of every request to it.
        enable_stable_row_ids: whether new tables in the catalog get stable row ids by default.
    """

    impl: str = DIRECTORY
    root: str | None = None
    uri: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    enable_stable_row_ids: bool = False
    storage_options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, settings: Mapping[str, str]) -> CatalogOptions:
        """Parses the settings, without their common prefix.

        Raises:
            InvalidInputError: an unknown name, or an invalid value.
        """
        headers = {name[len(_HEADER) :]: value for name, value in settings.items() if name.lower().startswith(_HEADER)}
        others = {name: value for name, value in settings.items() if not name.lower().startswith(_HEADER)}
        options = cls(**_parse(others, _CATALOG, needs_path=False), headers=headers)
        if options.impl == DIRECTORY and (options.uri is not None or headers):
            raise InvalidInputError("uri and header.* are for catalogs with impl = rest")
        if options.impl == REST and (options.uri is None or options.root is not None):
            raise InvalidInputError("a catalog with impl = rest has the setting uri, the server's address, and no root")
        return options


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """The options that select a table's columns, among other options."""

    columns: tuple[str, ...] | None = None
    with_row_id: bool = False
    with_row_address: bool = False

    @classmethod
    def pick(cls, options: Mapping[str, str]) -> ColumnOptions:
        """From Spark's options; others are ignored.

        Raises:
            InvalidInputError: an invalid value.
        """
        names = {"columns", "with_row_id", "with_row_address"}
        parsed = _parse(
            {name: value for name, value in options.items() if name.lower() in names}, _READ, needs_path=False
        )
        return cls(**{name: value for name, value in parsed.items() if name in names})


@dataclass(frozen=True, slots=True)
class StateOptions:
    """The options that select a table's version, among other options."""

    branch: str | None = None
    version: int | None = None
    tag: str | None = None
    timestamp: datetime | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def pick(cls, options: Mapping[str, str]) -> StateOptions:
        """From Spark's options; others are ignored.

        Raises:
            InvalidInputError: an invalid value.
        """
        mine = {name: value for name, value in options.items() if _is_state(name.lower())}
        parsed = cls(**_parse(mine, _READ, needs_path=False))
        _check_one_version(parsed)
        return parsed


@dataclass(frozen=True, slots=True)
class TableProperties:
    """The properties and options of CREATE TABLE.

    Attributes:
        location: the LOCATION clause, None if the catalog chooses.
        config: the entries of the table's config: all that the user has set.
        options: the write options among the properties.
    """

    location: str | None
    config: Mapping[str, str]
    options: WriteOptions

    @classmethod
    def parse(cls, properties: Mapping[str, str], uri: str, options: Mapping[str, str]) -> TableProperties:
        """From the properties of the statement and the options of its write, which take precedence.

        Args:
            uri: the future location of the table.

        Raises:
            InvalidInputError: an invalid value or option.
        """
        given = {name: value for name, value in properties.items() if name.lower() not in _RESERVED_PROPERTIES}
        # Spark repeats the OPTIONS with a prefix.
        of_statement = {
            name[len(_OPTION_PREFIX) :].lower() for name in given if name.lower().startswith(_OPTION_PREFIX)
        }
        kept = {name: value for name, value in given.items() if not name.lower().startswith(_OPTION_PREFIX)}
        _check_statement_options(of_statement, given)
        check_properties({name: value for name, value in kept.items() if name.lower() not in of_statement})
        known = {name: value for name, value in kept.items() if _shapes_a_write(name)}
        named = {name.lower(): name for name in options}
        merged = {name: value for name, value in known.items() if name.lower() not in named} | dict(options)
        comment = properties.get("comment")
        once = _WITHOUT_EFFECT.keys() | OF_ONE_WRITE
        config = {
            name: value
            for name, value in kept.items()
            if not name.lower().startswith(_STORAGE) and name.lower() not in once
        }
        return cls(
            location=properties.get("location"),
            config=config if comment is None else {**config, "comment": comment},
            options=WriteOptions.parse({**_without_path(merged), "path": uri}),
        )


def _check_statement_options(names: Iterable[str], given: Mapping[str, str]) -> None:
    """Rejects unknown names in OPTIONS (...), STORED AS and ROW FORMAT.

    Raises:
        InvalidInputError: there is such a name.
    """
    hive = sorted(name for name in (*given, *names) if name.lower().startswith(_OF_HIVE))
    if hive:
        raise InvalidInputError(f"{hive[0]} is for tables of Hive; leave STORED AS and ROW FORMAT out")
    for name in names:
        if not name.startswith(_STORAGE) and split_name(name) is None:
            _known(name, name, _WRITE)


def check_options_of_changes(options: Mapping[str, str]) -> None:
    """Passes if a read of changes has no options but those that Spark itself reads, and storage options.

    Raises:
        InvalidInputError: there is another option.
    """
    for name in options:
        if name.lower() not in OPTIONS_OF_CHANGES and not name.lower().startswith(_STORAGE):
            _known(name, name.lower(), _READ | dict.fromkeys(OPTIONS_OF_CHANGES, _READ["path"]))
            raise InvalidInputError(f"option {name} has no effect on a read of changes; leave it out")


def log_read_options_without_effect(names: Iterable[str]) -> None:
    """Logs which read options have no effect in the connector; see docs/options.md."""
    _log_without_effect(names, _WITHOUT_EFFECT_IN_CONNECTOR)


def _log_without_effect(names: Iterable[str], reasons: Mapping[str, str]) -> None:
    for name in names:
        if name.lower() in reasons:
            _log.warning("option %s has no effect: %s", name, reasons[name.lower()])


def storage_options_of(options: Mapping[str, str]) -> dict[str, str]:
    """The storage options among Spark's `options`, without their prefix.

    >>> storage_options_of({"storage.aws_region": "eu-west-1", "limit": "3"})
    {'aws_region': 'eu-west-1'}
    """
    return {name[len(_STORAGE) :]: value for name, value in options.items() if name.lower().startswith(_STORAGE)}


def refuse_time_travel_of_spark(options: Mapping[str, str]) -> None:
    """Rejects options that Spark supports only for sources with a catalog; the plug-in would read the newest version.

    Raises:
        InvalidInputError: there is such an option.
    """
    for name in options:
        if name.lower() in _OF_SPARK:
            own = "timestamp" if name.lower().startswith("timestamp") else "version or tag"
            raise InvalidInputError(f"option {name} is for the connector; use the option {own}")


def refuse_options_of_connector(options: ReadOptions) -> None:
    """Refuses what only the connector's planner does.

    Raises:
        InvalidInputError: there is such an option.
    """
    if options.zone_maps is not None:
        raise InvalidInputError("option zone_maps is for the connector, whose planner computes them; leave it out")


def _check_one_version(options: ReadOptions | StateOptions) -> None:
    chosen = [name for name in ("version", "tag", "timestamp") if getattr(options, name) is not None]
    if len(chosen) > 1:
        raise InvalidInputError(f"options {' and '.join(chosen)} both choose a version; keep one")


def _is_state(folded: str) -> bool:
    return folded in {"branch", "version", "tag", "timestamp"} or folded.startswith(_STORAGE)


def _shapes_a_write(name: str) -> bool:
    folded = name.lower()
    return folded in _WRITE or folded.startswith(_STORAGE) or split_name(folded) is not None


def _without_path(options: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in options.items() if name.lower() != "path"}


def _text(value: str) -> str:
    if not value.strip():
        raise ValueError("a text that is not empty")
    return value.strip()


def _integer(minimum: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        text = value.strip()
        if not re.fullmatch(r"\d{1,19}", text, re.ASCII) or not minimum <= int(text) < 2**63:
            raise ValueError(f"an integer of at least {minimum}")
        return int(text)

    return parse


def _boolean(value: str) -> bool:
    known = {"true": True, "false": False}
    if value.strip().lower() not in known:
        raise ValueError("true or false")
    return known[value.strip().lower()]


def _columns(value: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in re.split(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)", value))
    if not all(names) or value.count("`") % 2:
        raise ValueError("a list of columns such as id,point.x")
    return names


def _timestamp(value: str) -> datetime:
    try:
        return datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
    except ValueError:
        raise ValueError("a time such as 2026-11-21T10:00:00+00:00") from None


def _file_version(value: str) -> str:
    return FileVersion.parse(value.strip()).value


def _distribution(value: str) -> str:
    folded = value.strip().lower()
    if folded not in {"none", "hash", "range"}:
        raise ValueError("none, hash or range")
    return folded


def _overwrite_mode(value: str) -> str:
    folded = value.strip().lower()
    if folded not in {STATIC, DYNAMIC}:
        raise ValueError(f"{STATIC} or {DYNAMIC}")
    return folded


def _implementation(value: str) -> str:
    if value.strip().lower() not in (DIRECTORY, REST):
        raise ValueError(f"one of {DIRECTORY} and {REST}")
    return value.strip().lower()


@dataclass(frozen=True, slots=True)
class _Option:
    attribute: str | None
    parse: Callable[[str], Any]


_COMMON = {
    "path": _Option("path", _text),
    "branch": _Option("branch", _text),
}
# Handled by Spark itself.
_OF_SPARK = {
    "versionasof": _Option(None, _text),
    "timestampasof": _Option(None, _text),
}
_READ = _COMMON | {
    "version": _Option("version", _integer(1)),
    "tag": _Option("tag", _text),
    "timestamp": _Option("timestamp", _timestamp),
    "batch_size": _Option("batch_size", _integer(1)),
    "max_batch_bytes": _Option("max_batch_bytes", _integer(1)),
    "columns": _Option("columns", _columns),
    "filter": _Option("filter", parse_filter),
    "limit": _Option("limit", _integer(0)),
    "with_row_id": _Option("with_row_id", _boolean),
    "with_row_address": _Option("with_row_address", _boolean),
    "pushdownfilters": _Option("push_down_filters", _boolean),
    "topn_push_down": _Option("push_down_top_n", _boolean),
    "zone_maps": _Option("zone_maps", _boolean),
    "use_scalar_index": _Option("use_scalar_index", _boolean),
    "target_partition_bytes": _Option("target_partition_bytes", _integer(1)),
    **_OF_SPARK,
}
_WRITE = _COMMON | {
    "max_row_per_file": _Option("max_rows_per_file", _integer(1)),
    "max_rows_per_file": _Option("max_rows_per_file", _integer(1)),
    "max_bytes_per_file": _Option("max_bytes_per_file", _integer(1)),
    "file_format_version": _Option("file_format_version", _file_version),
    "data_storage_version": _Option("file_format_version", _file_version),
    "enable_stable_row_ids": _Option("enable_stable_row_ids", _boolean),
    "use_large_var_types": _Option("use_large_var_types", _boolean),
    "commit_message": _Option("commit_message", _text),
    "mergeschema": _Option("merge_schema", _boolean),
    "txnappid": _Option("txn_app_id", _text),
    "txnversion": _Option("txn_version", _integer(0)),
    "txnignoreold": _Option("txn_ignore_old", _boolean),
    "distribution": _Option("distribution", _distribution),
    "partitionoverwritemode": _Option("partition_overwrite_mode", _overwrite_mode),
    "max_rows_per_group": _Option(None, _integer(1)),
    "use_queued_write_buffer": _Option(None, _boolean),
    "queue_depth": _Option(None, _integer(1)),
    "batch_size": _Option(None, _integer(1)),
}
OPTIONS_OF_CHANGES = frozenset(
    {
        *("startingversion", "endingversion", "startingtimestamp", "endingtimestamp"),
        *("startingboundinclusive", "endingboundinclusive", "deduplicationmode", "computeupdates"),
    }
)
"""Options of changes(), which Spark reads by itself."""
_WITHOUT_EFFECT_IN_CONNECTOR = {"pushdownfilters": "the connector always pushes filters down"}
_WHOLE_BATCHES = "writes take whole batches as Spark makes them"
_WITHOUT_EFFECT = {
    "max_rows_per_group": "only legacy files have row groups, and those are not written",
    "use_queued_write_buffer": _WHOLE_BATCHES,
    "queue_depth": _WHOLE_BATCHES,
    "batch_size": _WHOLE_BATCHES,
}
"""Write options that are accepted because users of the other connector set them, and why they have no effect."""

_TABLE_DEFAULTS = frozenset({"max_row_per_file", "max_rows_per_file", "max_bytes_per_file", "distribution"})
_CATALOG = {
    "root": _Option("root", _text),
    "impl": _Option("impl", _implementation),
    "uri": _Option("uri", _text),
    "enable_stable_row_ids": _Option("enable_stable_row_ids", _boolean),
}
_OPTION_PREFIX = "option."
_OF_HIVE = ("hive.", "serialization.", "field.delim", "line.delim", "collection.delim", "mapkey.delim", "escape.delim")
_RESERVED_PROPERTIES = frozenset(
    {"provider", "location", "owner", "external", "is_managed_location", "comment", "path", "collation", "table_type"}
)
# Spark adds these when it creates a table of its session catalog.
_OF_CATALOG = frozenset({"owner", "provider", "external", "is_managed_location"})
_NO_CATALOG = (
    "Spark does not tell Python data sources where the tables of its session catalog lie. "
    "Use load(path), save(path), or a temporary view USING lance OPTIONS (path '...')"
)
_OF_STREAMS = frozenset({"startingversion", "startingtimestamp", "maxversionspertrigger", "readchangefeed"})
_OF_JVM_CONNECTOR = {
    "block_size": "what is read at a time follows from the file",
    "index_cache_size": "LANCE_SPARK_CACHE_BYTES bounds what a process keeps",
    "metadata_cache_size": "LANCE_SPARK_CACHE_BYTES bounds what a process keeps",
    "write_mode": "the mode of the write says it: mode('append') or mode('overwrite')",
}
"""Options of the other connector for Spark that do not apply here, and why."""


def _split(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """The options of the table and those of its columns."""
    plain: dict[str, str] = {}
    properties: dict[str, dict[str, str]] = {}
    for name, value in options.items():
        of_column = None if name.lower().startswith(_STORAGE) else split_name(name.lower())
        if of_column is None:
            plain[name] = value
        else:
            properties.setdefault(of_column[0], {})[of_column[1]] = value.strip()
    return plain, properties


def _parse(options: Mapping[str, str], known: Mapping[str, _Option], *, needs_path: bool = True) -> dict[str, Any]:
    parsed: dict[str, Any] = {}
    named: dict[str, str] = {}
    storage: dict[str, str] = {}
    if any(name.lower() in _OF_CATALOG for name in options):
        raise InvalidInputError(f"a table of the session catalog cannot be made here; {_NO_CATALOG}")
    for name, value in options.items():
        folded = name.lower()
        if folded.startswith(_STORAGE):
            storage[name[len(_STORAGE) :]] = value
            continue
        option = _known(name, folded, known)
        if option.attribute is None:
            _value(name, value, option)  # Rejects invalid values.
            continue
        if option.attribute in parsed:
            raise InvalidInputError(f"options {named[option.attribute]} and {name} are the same; keep one")
        parsed[option.attribute] = _value(name, value, option)
        named[option.attribute] = name
    if needs_path and "path" not in parsed:
        raise InvalidInputError(f"no path is given; {_NO_CATALOG}")
    return {**parsed, "storage_options": storage}


def _known(name: str, folded: str, known: Mapping[str, _Option]) -> _Option:
    if folded in known:
        return known[folded]
    if folded in _READ or folded in _WRITE:
        purpose = "reads" if folded in _READ else "writes"
        raise InvalidInputError(f"option {name} is one of {purpose}; leave it out")
    if folded == "paths":
        raise InvalidInputError("several paths are given; a table has one")
    if folded in _OF_STREAMS:
        raise UnsupportedFeatureError(
            f"option {name} is not supported here: it is for streaming reads of the connector; leave it out",
            feature=name,
        )
    if folded in _OF_JVM_CONNECTOR:
        raise InvalidInputError(f"there is no option {name}: {_OF_JVM_CONNECTOR[folded]}; leave it out")
    near = difflib.get_close_matches(folded, [*known, _STORAGE], n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(known))} and {_STORAGE}*"
    raise InvalidInputError(f"unknown option {name}; {hint}")


def _value(name: str, value: str, option: _Option) -> Any:
    try:
        return option.parse(value)
    except InvalidInputError as error:
        raise InvalidInputError(f"option {name}: {error}") from error
    except ValueError as error:
        raise InvalidInputError(f"option {name} is {value!r}, which is not {error}") from error
