"""Feature flags of a manifest (Lance table format specification, "Format Versioning").

Two bit masks: a reader that does not know a bit of the reader flags must not read the table, a writer that does not
know a bit of the writer flags must not write to it. Some features need both flags; only one of them is corruption.
"""

from __future__ import annotations

from enum import IntFlag

from lance_spark.errors import CorruptFileError, UnsupportedFeatureError


class FeatureFlag(IntFlag):
    """The bits with a meaning; every other bit is unknown."""

    DELETION_FILES = 1
    STABLE_ROW_IDS = 2
    USE_V2_FORMAT = 4
    TABLE_CONFIG = 8
    BASE_PATHS = 16
    DISABLE_TRANSACTION_FILE = 32
    DATA_OVERLAY_FILES = 64
    COVERED_INDEX_METADATA = 128
    MIXED_DATA_FILE_VERSIONS = 256
    FRAGMENT_REUSE_WITH_STABLE_ROW_IDS = 512
    FRAGMENT_REUSE_INDEX = 1024
    SPILLED_ROW_LINEAGE = 2048
    FRAGMENT_TREE = 4096
    INDEPENDENT_COVERING_FIELDS = 8192
    MANAGED_BLOBS = 16384
    NON_REUSABLE_FIELD_IDS = 32768


# Flags that concern only indexes do not affect a reader that scans the data without them.
_READABLE = (
    FeatureFlag.DELETION_FILES
    | FeatureFlag.STABLE_ROW_IDS
    | FeatureFlag.USE_V2_FORMAT
    | FeatureFlag.TABLE_CONFIG
    | FeatureFlag.BASE_PATHS
    | FeatureFlag.DISABLE_TRANSACTION_FILE
    | FeatureFlag.COVERED_INDEX_METADATA
    | FeatureFlag.MIXED_DATA_FILE_VERSIONS
    | FeatureFlag.FRAGMENT_REUSE_INDEX
    | FeatureFlag.SPILLED_ROW_LINEAGE
)

_WRITABLE = (
    FeatureFlag.DELETION_FILES
    | FeatureFlag.STABLE_ROW_IDS
    | FeatureFlag.USE_V2_FORMAT
    | FeatureFlag.TABLE_CONFIG
    | FeatureFlag.BASE_PATHS
    | FeatureFlag.DISABLE_TRANSACTION_FILE
    | FeatureFlag.MIXED_DATA_FILE_VERSIONS
    | FeatureFlag.SPILLED_ROW_LINEAGE
    | FeatureFlag.NON_REUSABLE_FIELD_IDS
)

_PAIRED = int(FeatureFlag.MIXED_DATA_FILE_VERSIONS | FeatureFlag.FRAGMENT_REUSE_INDEX | FeatureFlag.MANAGED_BLOBS)

STICKY_PAIRS = FeatureFlag.MIXED_DATA_FILE_VERSIONS
"""Flags that, once set in both masks, every later version keeps."""

CARRIED = FeatureFlag.USE_V2_FORMAT | FeatureFlag.DISABLE_TRANSACTION_FILE | FeatureFlag.NON_REUSABLE_FIELD_IDS
"""Flags that do not depend on the content of a version; a later version copies them unchanged."""


def check_readable(reader_flags: int, writer_flags: int, path: str) -> None:
    """Checks that this release can read a manifest.

    Raises:
        UnsupportedFeatureError: the reader flags have an unknown bit.
        CorruptFileError: a feature that needs both flags is set in one only.
    """
    _check(reader_flags, _READABLE, "read", path)
    halves = (reader_flags ^ writer_flags) & _PAIRED
    if halves:
        raise CorruptFileError(f"feature flags set for readers or writers alone: {_names(halves)}", path=path)


def check_writable(writer_flags: int, path: str) -> None:
    """Checks that this release can write a successor of a manifest.

    Raises:
        UnsupportedFeatureError: the writer flags have an unknown bit.
    """
    _check(writer_flags, _WRITABLE, "write", path)


def _check(flags: int, known: int, verb: str, path: str) -> None:
    # int: the complement of an IntFlag has only the named bits.
    unknown = flags & ~int(known)
    if unknown:
        raise UnsupportedFeatureError(
            f"{path} needs features that this release cannot {verb}: {_names(unknown)}; a newer release may",
            feature=_names(unknown),
        )


def _names(flags: int) -> str:
    bits = [1 << shift for shift in range(flags.bit_length()) if flags >> shift & 1]
    return ", ".join(f"{FeatureFlag(bit).name} ({bit})" if bit in _KNOWN_BITS else f"unknown ({bit})" for bit in bits)


_KNOWN_BITS = frozenset(int(flag) for flag in FeatureFlag)
