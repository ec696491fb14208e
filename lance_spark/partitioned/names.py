"""Names in a partitioned namespace (partitioning specification, Physical Layout and Naming)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.namespace.directory.catalog_table import PARTITION_SPEC, RESERVED_PROPERTIES
from lance_spark.table.versions.known_properties import WAP_ENABLED

TABLE_NAME = "dataset"
"""The table at the end of every branch of the hierarchy."""

PARTITION_COLUMN_PREFIX = "partition_field_"
SPEC_KEY_PREFIX = PARTITION_SPEC
SCHEMA_KEY = "schema"
MAX_FIELD_ID = "lance.max_field_id"
"""The property of the namespace with the largest field id that was ever assigned."""

INDEX_PREFIX = "lance.index_definition."
"""Prefix of the keys in the metadata of `__manifest` that hold index definitions."""

_SPEC_NUMBER = re.compile(r"[1-9][0-9]{0,9}\Z")
MAX_SPEC_ID = 2**31 - 1


def partition_column(field_id: str) -> str:
    """The column of `__manifest` that holds the values of a partition field."""
    return PARTITION_COLUMN_PREFIX + field_id


def spec_key(spec_id: int) -> str:
    """The key of a partition spec in the metadata of `__manifest`."""
    return f"{SPEC_KEY_PREFIX}{spec_id}"


def spec_namespace(spec_id: int) -> str:
    """The child namespace that holds the partitions of a spec."""
    return f"v{spec_id}"


def spec_id_of_key(key: str) -> int | None:
    """N of `partition_spec_v<N>`; None for other keys.

    Raises:
        InvalidInputError: the key has the prefix, but no number after it.
    """
    if not key.startswith(SPEC_KEY_PREFIX):
        return None
    return _spec_number(key, key[len(SPEC_KEY_PREFIX) :])


def spec_id_of_object(object_id: str) -> int | None:
    """N of an object below `v<N>`; None for objects that no spec version holds."""
    first = object_id.partition("$")[0]
    number = first[1:]
    return int(number) if first.startswith("v") and _SPEC_NUMBER.match(number) else None


def _spec_number(key: str, digits: str) -> int:
    if not _SPEC_NUMBER.match(digits) or int(digits) > MAX_SPEC_ID:
        raise InvalidInputError(f"{key!r} names no version of a partition spec; v1, v2 and so on are versions")
    return int(digits)


def check_properties(names: Iterable[str]) -> None:
    """Passes if users may give a partitioned table properties of these names.

    Raises:
        InvalidInputError: one of them defines columns, partitions or indexes.
        UnsupportedFeatureError: one of them needs branches.
    """
    names = list(names)
    if WAP_ENABLED in names:
        raise UnsupportedFeatureError(
            f"property {WAP_ENABLED} needs branches, which partitioned tables do not have; use a plain table",
            feature="branches of partitioned tables",
        )
    refused = [name for name in names if is_definition(name)]
    if refused:
        raise InvalidInputError(f"property {refused[0]} of a partitioned table cannot be set")


def is_definition(name: str) -> bool:
    """Whether an entry in the metadata of `__manifest` defines columns, partitions or indexes, and is no property."""
    return name in (SCHEMA_KEY, MAX_FIELD_ID) or name.startswith((SPEC_KEY_PREFIX, INDEX_PREFIX, RESERVED_PROPERTIES))
