"""The mark of a streaming query: which of its epochs a table has.

An epoch is one micro-batch of a query. Its number is committed by the very manifest that brings its rows, as an entry
of the table's config, so a replay of the epoch is recognised for as long as the table exists, whatever a clean-up has
removed. The transaction has the same two values as properties.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from enum import Enum
from types import MappingProxyType

from lance_spark.errors import EpochCommittedError, InvalidInputError, StreamBehindError
from lance_spark.table.manifests.features import FeatureFlag
from lance_spark.table.manifests.manifest import Manifest, timestamp_of

PREFIX = "lance.streaming."
RETENTION = f"{PREFIX}retention"
"""The property with the number of days after which marks of other queries are removed."""

QUERY_ID, EPOCH_ID = f"{PREFIX}queryId", f"{PREFIX}epochId"
"""Properties of the transaction."""

_NOT_QUERIES = frozenset({RETENTION, QUERY_ID, EPOCH_ID})
DEFAULT_RETENTION_DAYS = 30


class Verdict(str, Enum):
    """Verdict of a table on an epoch of a streaming query."""

    GO = "go"
    """The epoch is newer than any that the table has of the query."""
    DONE = "done"
    """It was committed before."""
    BEHIND = "behind"
    """The table has a newer one, or another one of this number: the checkpoint was deleted, copied or put back."""


@dataclass(frozen=True, slots=True)
class CommittedEpoch:
    """The newest epoch that a table has of a query, when it was committed (UTC), and `EpochMark.planned`."""

    app: str
    epoch: int
    at: datetime
    planned: int | None = None


@dataclass(frozen=True, slots=True)
class EpochMark:
    """One epoch of one query, to be committed once.

    Attributes:
        app: the query's id, or the name that stands for it.
        epoch: its number, 0 or more.
        ignores_older: whether an epoch older than the committed one counts as done.
        planned: when the query chose the rows of the epoch, in milliseconds since 1970 by its own clock; a replay has
            that of the first time. None: not known.
    """

    app: str
    epoch: int
    ignores_older: bool = False
    planned: int | None = None

    def __post_init__(self) -> None:
        if not self.app or PREFIX + self.app in _NOT_QUERIES:
            raise InvalidInputError(f"a streaming query cannot be called {self.app!r}; choose another name")

    def verdict(self, config: Mapping[str, str]) -> Verdict:
        """Verdict of a table with `config` on the epoch.

        Raises:
            InvalidInputError: the entry of the query is not one that this library writes.
        """
        committed = committed_epoch(config, self.app)
        if committed is None or self.epoch > committed.epoch:
            return Verdict.GO
        is_done = self.ignores_older or (self.epoch == committed.epoch and self._may_have_rows_of(committed))
        return Verdict.DONE if is_done else Verdict.BEHIND

    def _may_have_rows_of(self, known: CommittedEpoch) -> bool:
        """Whether this can be a replay of `known`. An old checkpoint goes on with the same number and other rows."""
        return self.planned is None or known.planned is None or self.planned == known.planned

    def check(self, config: Mapping[str, str], uri: str) -> None:
        """Passes if the epoch may be committed to a table with `config`.

        Raises:
            EpochCommittedError: it was committed before.
            StreamBehindError: the table has a newer one, or another one of this number.
        """
        verdict = self.verdict(config)
        if verdict is Verdict.DONE:
            raise EpochCommittedError(f"{uri} has epoch {self.epoch} of the query {self.app} already")
        if verdict is Verdict.BEHIND:
            committed = committed_epoch(config, self.app)
            assert committed is not None, "the query is behind its mark"
            another = "another " if self.epoch == committed.epoch else ""
            raise StreamBehindError(
                f"{uri} has epoch {committed.epoch} of the query {self.app}, and the query offers {another}epoch "
                f"{self.epoch}: its checkpoint was deleted, copied or put back. To write its rows again, give it "
                "another name by the option txnAppId",
                committed=committed.epoch,
                offered=self.epoch,
            )

    def properties(self) -> dict[str, str]:
        """The properties of the transaction."""
        return {QUERY_ID: self.app, EPOCH_ID: str(self.epoch)}

    def applied(self, manifest: Manifest) -> Manifest:
        """`manifest`, about to be committed, with the mark, and without marks of other queries that are too old."""
        at = timestamp_of(manifest.timestamp_nanos)
        oldest = at - timedelta(days=retention_days(manifest.config))
        expired = {PREFIX + item.app for item in committed_epochs(manifest.config) if item.at < oldest}
        config = {key: value for key, value in manifest.config.items() if key not in expired}
        planned = {} if self.planned is None else {"planned": self.planned}
        entry = {"epoch": self.epoch, "at": at.isoformat(), **planned}
        config[PREFIX + self.app] = json.dumps(entry, separators=(",", ":"))
        return replace(
            manifest,
            config=MappingProxyType(config),
            writer_flags=manifest.writer_flags | FeatureFlag.TABLE_CONFIG,
        )


def is_mark(key: str) -> bool:
    """Whether a key of a config is the mark of a query."""
    return key.startswith(PREFIX) and key not in _NOT_QUERIES


def committed_epoch(config: Mapping[str, str], app: str) -> CommittedEpoch | None:
    """The newest epoch of a query in a table with `config`; None if there is none.

    Raises:
        InvalidInputError: the entry of the query is not one that this library writes.
    """
    text = config.get(PREFIX + app)
    return None if text is None else _parsed(app, text)


def committed_epochs(config: Mapping[str, str]) -> list[CommittedEpoch]:
    """The newest epoch of each query, by name of the query. Raises as `committed_epoch`."""
    return [_parsed(key[len(PREFIX) :], config[key]) for key in sorted(config) if is_mark(key)]


def retention_days(config: Mapping[str, str]) -> int:
    """For how many days marks of other queries are kept.

    Raises:
        InvalidInputError: the property is no whole number.
    """
    text = config.get(RETENTION, str(DEFAULT_RETENTION_DAYS)).strip()
    if not text.isascii() or not text.isdigit() or int(text) > 36_500:
        raise InvalidInputError(f"property {RETENTION} is {text!r}; it is a number of days such as 30")
    return int(text)


def _parsed(app: str, text: str) -> CommittedEpoch:
    try:
        entry = json.loads(text)
        at = datetime.fromisoformat(entry["at"].replace("Z", "+00:00"))
        planned = entry.get("planned")
        return CommittedEpoch(
            app,
            int(entry["epoch"]),
            at if at.tzinfo else at.replace(tzinfo=timezone.utc),
            None if planned is None else int(planned),
        )
    except (ValueError, OverflowError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInputError(
            f"the entry {PREFIX}{app} of the table's config is {text!r}, which is not the mark of a streaming query; "
            "remove it by CALL system.release_stream"
        ) from error
