"""The options of the data source, parsed once into frozen dataclasses; `option_names` has their names.

Names are case-insensitive. An unknown name is rejected, with the nearest known one in the message: ignoring a
misspelt option would read or write something other than intended. For options of the format that do not apply here the
message says so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import Expr
from lance_spark.spark.options.hadoop_names import refuse_hadoop_names
from lance_spark.spark.options.names import (
    OF_SPARK,
    OPTIONS_OF_CHANGES,
    READ,
    STORAGE_PREFIX,
    TABLE_DEFAULTS,
    WITHOUT_EFFECT,
    WITHOUT_EFFECT_IN_CONNECTOR,
    WRITE,
    known_option,
    parse_options,
    split_options,
)
from lance_spark.spark.table_view import ShownAs
from lance_spark.spark.types.column_properties import Properties
from lance_spark.table.manifests.epoch_mark import EpochMark
from lance_spark.table.reading.scan import DEFAULT_WINDOW_BYTES
from lance_spark.table.refs.refs import MAIN
from lance_spark.table.writing.file_limits import DEFAULT_MAX_BYTES_PER_FILE, DEFAULT_MAX_ROWS_PER_FILE, FileLimits

_log = logging.getLogger(__name__)
DEFAULT_PARTITION_BYTES = 128 << 20
DEFAULT_BATCH_ROWS = 32768
"""Each batch is transferred between Python and the JVM, which has a fixed cost."""

BATCH_BYTES = 8 << 20
"""The approximate maximum size of a batch, so that wide rows do not fill the memory of a task."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of a read (see docs/reference/options.md)."""

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
    blob_handling: str | None = None
    json_as: str | None = None
    uuid_as: str | None = None
    push_down_filters: bool = False
    push_down_top_n: bool = True
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
        parsed = cls(**parse_options(options, READ))
        _check_one_version(parsed)
        return parsed


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of a write (see docs/reference/options.md)."""

    path: str
    branch: str | None = None
    max_rows_per_file: int | None = None
    max_bytes_per_file: int | None = None
    file_format_version: str | None = None
    enable_stable_row_ids: bool | None = None
    use_large_var_types: bool = False
    auto_zonemap: str | None = None
    commit_message: str | None = None
    merge_schema: bool = False
    txn_app_id: str | None = None
    txn_version: int | None = None
    txn_planned: int | None = None
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
        plain, properties = split_options(options)
        ignored = tuple(name for name in plain if name.lower() in WITHOUT_EFFECT)
        return cls(**parse_options(plain, WRITE), column_properties=properties, without_effect=ignored)

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
        named = (self.txn_app_id, self.txn_version, self.txn_planned)
        if named == (None, None, None) and not self.txn_ignore_old:
            return None
        if self.txn_app_id is None or self.txn_version is None:
            raise InvalidInputError("options txnAppId and txnVersion name a write together; set both")
        return EpochMark(self.txn_app_id, self.txn_version, self.txn_ignore_old, self.txn_planned)

    def log_without_effect(self) -> None:
        """Logs which options were accepted and have no effect; see docs/reference/options.md."""
        _log_without_effect(self.without_effect, WITHOUT_EFFECT)

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
        mine = {name: value for name, value in config.items() if name.lower() in TABLE_DEFAULTS}
        parsed = parse_options(mine, WRITE, needs_path=False)
        return cls(**{name: value for name, value in parsed.items() if name != "storage_options"})


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """The options that select a table's columns, among other options."""

    columns: tuple[str, ...] | None = None
    with_row_id: bool = False
    with_row_address: bool = False
    blob_handling: str | None = None
    json_as: str | None = None
    uuid_as: str | None = None

    @classmethod
    def pick(cls, options: Mapping[str, str]) -> ColumnOptions:
        """From Spark's options; others are ignored.

        Raises:
            InvalidInputError: an invalid value.
        """
        names = {"columns", "with_row_id", "with_row_address", "blob_handling", "json_as", "uuid_as"}
        parsed = parse_options(
            {name: value for name, value in options.items() if name.lower() in names}, READ, needs_path=False
        )
        return cls(**{name: value for name, value in parsed.items() if name in names})

    def shown_as(self, properties: Mapping[str, str]) -> ShownAs:
        """Display types of columns in Spark: from the options, or else from the properties of the table."""
        return ShownAs.of(properties, blob_handling=self.blob_handling, json_as=self.json_as, uuid_as=self.uuid_as)


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
            InvalidInputError: an invalid value, or an option of Hadoop's file systems.
        """
        refuse_hadoop_names(options)
        mine = {name: value for name, value in options.items() if _is_state(name.lower())}
        parsed = cls(**parse_options(mine, READ, needs_path=False))
        _check_one_version(parsed)
        return parsed


def check_options_of_changes(options: Mapping[str, str]) -> None:
    """Passes if a read of changes has no options but those that Spark itself reads, and storage options.

    Raises:
        InvalidInputError: there is another option.
    """
    for name in options:
        if name.lower() not in OPTIONS_OF_CHANGES and not name.lower().startswith(STORAGE_PREFIX):
            known_option(name, name.lower(), READ | OPTIONS_OF_CHANGES)
            raise InvalidInputError(f"option {name} has no effect on a read of changes; leave it out")


def log_read_options_without_effect(names: Iterable[str]) -> None:
    """Logs which read options have no effect in the connector; see docs/reference/options.md."""
    _log_without_effect(names, WITHOUT_EFFECT_IN_CONNECTOR)


def _log_without_effect(names: Iterable[str], reasons: Mapping[str, str]) -> None:
    for name in names:
        if name.lower() in reasons:
            _log.warning("option %s has no effect: %s", name, reasons[name.lower()])


def refuse_time_travel_of_spark(options: Mapping[str, str]) -> None:
    """Rejects options that Spark supports only for sources with a catalog; the plug-in would read the newest version.

    Raises:
        InvalidInputError: there is such an option.
    """
    for name in options:
        if name.lower() in OF_SPARK:
            own = "timestamp" if name.lower().startswith("timestamp") else "version or tag"
            raise InvalidInputError(f"option {name} is for the connector; use the option {own}")


def _check_one_version(options: ReadOptions | StateOptions) -> None:
    chosen = [name for name in ("version", "tag", "timestamp") if getattr(options, name) is not None]
    if len(chosen) > 1:
        raise InvalidInputError(f"options {' and '.join(chosen)} both choose a version; keep one")


def _is_state(folded: str) -> bool:
    return folded in {"branch", "version", "tag", "timestamp"} or folded.startswith(STORAGE_PREFIX)
