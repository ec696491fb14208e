"""The properties under `lance.`: all that this library or the reference library knows, in one table.

They are entries of the config of a table, and among the properties of a partitioned one. Names under `lance.` are the
format's, so a name that nobody knows is a mistake: it would be kept and have no effect. What is in a table already
stays, whoever has set it. `docs/reference/properties.md` lists the same names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass

from lance_spark.errors import InvalidInputError
from lance_spark.table.cleanup.auto_cleanup import (
    DROPPED_TABLE_RETENTION,
    INTERVAL,
    OLDER_THAN,
    RETAIN_VERSIONS,
    parse_retention,
    policy_after,
)
from lance_spark.table.indexes.zone_setting import AUTO_ZONEMAP, column_names
from lance_spark.table.maintenance.clustering.layout import CLUSTERING_COLUMNS
from lance_spark.table.maintenance.clustering.layout import column_names as clustering_columns
from lance_spark.table.maintenance.compaction_options import CONFIG_PREFIX, CompactionOptions
from lance_spark.table.maintenance.compaction_setting import AUTO_COMPACT, MIN_FRAGMENTS, AutoCompaction
from lance_spark.table.manifests.epoch_mark import RETENTION, is_mark, retention_days
from lance_spark.table.row_level.isolation import ISOLATION_LEVEL, IsolationLevel
from lance_spark.table.row_level.update_mode import UPDATE_MODE

PREFIX = "lance."
WAP_ENABLED = "lance.wap.enabled"
"""Whether the settings spark.wap.branch and spark.wap.id of a session choose the branch of its statements."""

BLOB_HANDLING, JSON_AS, UUID_AS = "lance.blob_handling", "lance.json_as", "lance.uuid_as"


@dataclass(frozen=True, slots=True)
class KnownProperty:
    """A property.

    Attributes:
        values: those that it can have, for messages.
        check: raises `InvalidInputError` for others.
        is_honoured: whether this library acts by it; others are accepted for the reference library, which does.
    """

    values: str
    check: Callable[[str], object]
    is_honoured: bool = True


def _words(*words: str, is_honoured: bool = True) -> KnownProperty:
    values = f"{', '.join(words[:-1])} or {words[-1]}"

    def check(value: str) -> None:
        if value.strip().lower() not in words:
            raise InvalidInputError(f"{value!r} is not {values}")

    return KnownProperty(values, check, is_honoured)


def _number(*, or_word: str = "") -> KnownProperty:
    values = f"a whole number{f' or {or_word}' if or_word else ''}"

    def check(value: str) -> None:
        if re.fullmatch("[0-9]{1,18}", value) is None and not (or_word and value == or_word):
            raise InvalidInputError(f"{value!r} is not {values}")

    return KnownProperty(values, check, is_honoured=False)


def _compaction(name: str, values: str) -> tuple[str, KnownProperty]:
    key = f"{CONFIG_PREFIX}{name}"
    return key, KnownProperty(values, lambda value: CompactionOptions.of({key: value}))


def _cleanup(name: str, values: str) -> tuple[str, KnownProperty]:
    return name, KnownProperty(values, lambda value: policy_after(1, {INTERVAL: "1", name: value}))


KNOWN_PROPERTIES: dict[str, KnownProperty] = {
    AUTO_COMPACT: KnownProperty("true or false", lambda value: AutoCompaction.of({AUTO_COMPACT: value})),
    MIN_FRAGMENTS: KnownProperty("2 or more", lambda value: AutoCompaction.of({MIN_FRAGMENTS: value})),
    AUTO_ZONEMAP: KnownProperty("columns, or *", lambda value: value.strip() and column_names(value)),
    CLUSTERING_COLUMNS: KnownProperty("columns", lambda value: value.strip() and clustering_columns(value)),
    BLOB_HANDLING: _words("descriptions", "binary"),
    DROPPED_TABLE_RETENTION: KnownProperty("a length of time, or forever", parse_retention),
    JSON_AS: _words("variant", "string"),
    UUID_AS: _words("binary", "string"),
    UPDATE_MODE: _words("auto", "columns", "rows"),
    RETENTION: KnownProperty("a number of days", lambda value: retention_days({RETENTION: value})),
    **dict(
        [
            _cleanup(INTERVAL, "a positive number"),
            _cleanup(OLDER_THAN, "a length of time"),
            _cleanup(RETAIN_VERSIONS, "a positive number"),
            _compaction("target_rows_per_fragment", "a positive number"),
            _compaction("max_bytes_per_file", "a positive number"),
            _compaction("materialize_deletions", "true or false"),
            _compaction("materialize_deletions_threshold", "0 to 1"),
            _compaction("batch_size", "a positive number"),
            _compaction("defer_index_remap", "true or false"),
        ]
    ),
    WAP_ENABLED: _words("true", "false"),
    "lance.auto_cleanup.referenced_branch": _words("true", "false", is_honoured=False),
    "lance.auto_cleanup.delete_rate_limit": _number(),
    "lance.auto_cleanup.delete_concurrency": _number(),
    "lance.blob.managed": _words("true", "false", is_honoured=False),
    "lance.compaction.max_rows_per_group": _number(),
    "lance.compaction.index_remap_mode": _words("direct", "merged", is_honoured=False),
    "lance.compaction.io_buffer_size": _number(),
    "lance.compaction.compaction_mode": _words("re-encode", "try-binary-copy", "force-binary-copy", is_honoured=False),
    "lance.compaction.binary_copy_read_batch_bytes": _number(),
    "lance.compaction.max_source_fragments": _number(),
    "lance.compaction.max_source_rows": _number(),
    "lance.compaction.max_source_bytes": _number(),
    "lance.compaction.max_overlays_per_fragment": _number(or_word="none"),
    "lance.row_lineage.spill": _words("true", "false", is_honoured=False),
    "lance.row_lineage.inline_max_bytes": _number(),
    "lance.row_ids.range_segments": KnownProperty("what the reference library takes", str, is_honoured=False),
}
"""By name. `lance.streaming.*` are also the marks of streaming queries, which these write themselves."""


def check_known(entries: Mapping[str, str | None], present: Container[str] = ()) -> None:
    """Checks that the entries under `lance.` that are to be set are known, and that known entries have valid values.

    Args:
        present: what the table has; other writers may know more names.

    Raises:
        InvalidInputError: a name is unknown, or a value is invalid.
    """
    for name, value in entries.items():
        # What is no text is refused by the commit, and None removes an entry, whatever it is.
        if not isinstance(name, str) or not isinstance(value, str):
            continue
        if name.lower() == ISOLATION_LEVEL:
            IsolationLevel.of({name: value})
        if not name.lower().startswith(PREFIX):
            continue
        property_ = KNOWN_PROPERTIES.get(name)
        if property_ is None and name not in present and not is_mark(name):
            raise unknown_property(name, nearest_known(name))
        if property_ is not None:
            try:
                property_.check(value)
            except InvalidInputError as error:
                raise InvalidInputError(f"property {name} takes {property_.values}; {error}") from None


def unknown_property(name: str, near: str) -> InvalidInputError:
    """The error that `name` is unknown."""
    return InvalidInputError(
        f"unknown property {name}; did you mean {near}? Names that begin with {PREFIX} are those of the format; give a "
        "property of your own another name"
    )


def nearest_known(name: str) -> str:
    """The known property whose name is most like `name`.

    >>> nearest_known("lance.auto_compat"), nearest_known("LANCE.JSON_AS")
    ('lance.auto_compact', 'lance.json_as')
    """
    import difflib

    (near,) = difflib.get_close_matches(name.lower(), sorted(KNOWN_PROPERTIES), n=1, cutoff=0.0)
    return near
