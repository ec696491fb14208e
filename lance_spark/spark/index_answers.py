"""Answers of scalar indexes to the filter of a scan, split by split; the planner queries them once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

import pyroaring

from lance_spark.errors import InvalidInputError
from lance_spark.index.answers import Answer
from lance_spark.index.planner import IndexQuery, Plan
from lance_spark.spark.partitions import MAX_CANDIDATE_BYTES
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.index_candidates import is_selective, live_rows
from lance_spark.table.reading.index_plan import index_plan
from lance_spark.table.reading.scan import Scan

MAX_SPLITS = 256
"""The indexes of more splits are not asked: each has files of its own to open."""

_MAX_BYTES = 16 << 20
"""All tasks of a scan together are not sent more candidates than this; the other fragments are read completely."""

_SETTING = "spark.sql.lance.useScalarIndex"


@dataclass
class IndexAnswers:
    """The rows that can match a filter, as far as indexes know them.

    Attributes:
        queries: what the indexes were asked, split by split.
        num_unanswered: fragments of which no index knows the rows that can match.
        num_rows: how many rows match, if indexes know exactly which of all fragments do.
    """

    queries: list[IndexQuery] = field(default_factory=list)
    num_unanswered: int = 0
    num_rows: int | None = None
    _found: list[Answer] = field(default_factory=list)
    _bytes_left: int = _MAX_BYTES

    @classmethod
    def of(cls, splits: Sequence[tuple[Manifest, Scan]]) -> IndexAnswers:
        """The answers for the filters of scans; none if they have no filter.

        Args:
            splits: the versions of the splits' tables, each with the scan that is bound to it.
        """
        answers = cls()
        if any(scan.filter is None for _, scan in splits) or len(splits) > MAX_SPLITS:
            return answers
        counts = []
        for manifest, scan in splits:
            plan = index_plan(scan, manifest)
            answers.queries += plan.queries
            answers.num_unanswered += len(manifest.fragments) - len(plan.matches)
            answers._found.append(plan.matches)
            counts.append(_exact_rows(manifest, scan, plan))
        known = [count for count in counts if count is not None]
        answers.num_rows = sum(known) if len(known) == len(counts) else None
        return answers

    @property
    def know_rows(self) -> bool:
        """Whether the rows of any fragment are known."""
        return any(self._found)

    def candidates(self, split: int, fragment_id: int, physical_rows: int) -> pyroaring.BitMap | None:
        """The rows of a fragment that can match, deleted ones possibly among them; None if they are not known, or if
        it is cheaper to read all.

        Args:
            split: its place among the splits.
            physical_rows: how many rows it has, deleted ones included; 0 if that is not known.
        """
        found = self._found[split].get(fragment_id) if self._found else None
        if found is None or not is_selective(found.offsets, physical_rows):
            return None
        num_bytes = len(found.offsets.serialize())
        if num_bytes > MAX_CANDIDATE_BYTES or num_bytes > self._bytes_left:
            return None
        self._bytes_left -= num_bytes
        return found.offsets

    def described(self, searched: Sequence[IndexQuery] = (), num_unsearched: int = 0) -> str | None:
        """The questions as EXPLAIN shows them; None if no index has answered.

        Args:
            searched: what text indexes were asked before.
            num_unsearched: fragments that a text search has read without an index.
        """
        if not self.queries and not searched:
            return None
        num_unanswered = max(num_unsearched, self.num_unanswered if self.queries else 0)
        parts = []
        keyed = sorted([*searched, *self.queries], key=_key)
        for (index, type_name, condition), group in groupby(keyed, _key):
            queries = list(group)
            segments = sum(query.num_segments for query in queries)
            fragments = sum(len(query.fragment_ids) for query in queries)
            parts.append(f"{index} ({type_name}): {condition}, segments={segments}, fragments={fragments}")
        return "; ".join([*parts, f"fragments without index={num_unanswered}"])


def _exact_rows(manifest: Manifest, scan: Scan, plan: Plan) -> int | None:
    """Number of matching rows of a version; None if indexes do not know it exactly."""
    found = plan.matches
    if len(found) < len(manifest.fragments) or any(id_ in found.inexact for id_ in found.rows):
        return None
    with_rows = manifest.fragments.with_ids(found.rows)
    return sum(len(live_rows(fragment, scan.version, found.rows[fragment.id])) for fragment in with_rows)


def _key(query: IndexQuery) -> tuple[str, str, str]:
    return query.index, query.type_name, str(query.condition)


def asked_scalar_index(option: bool | None, setting: str | None) -> bool:
    """Whether a scan asks indexes: by the option of the read, else by the session's setting, else yes.

    Raises:
        InvalidInputError: the setting is neither true nor false.
    """
    if option is not None or setting is None:
        return option is not False
    text = setting.strip().lower()
    if text not in ("true", "false"):
        raise InvalidInputError(f"{_SETTING} is {setting!r}; set it to true or false")
    return text == "true"
