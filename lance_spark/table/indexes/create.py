"""Creates an index: builds its segments from the newest version and commits them as one version.

`trained` trains what all segments have in common, from a sample of a version.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise

import numpy as np

from lance_spark.errors import (
    AlreadyExistsError,
    CommitStateUnknownError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
)
from lance_spark.index.builders.base import IndexedRows, positive_number
from lance_spark.table.bases import Bases
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.indexes.build import build_segment, remove_segments, write_segment
from lance_spark.table.indexes.commit import commit_indices
from lance_spark.table.indexes.definition import IndexDefinition, define
from lance_spark.table.indexes.rows import index_scan, indexed_rows
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.take import Take
from lance_spark.table.writing.save import CommitOptions

_MAX_ATTEMPTS = 5
"""Fewer than of other operations, because each attempt reads the column again."""

_COMMON = ("train", "num_segments")

_SEED = 0


def create_index(
    table: TableLocation,
    column: str,
    kind: str,
    name: str | None,
    *,
    replace: bool,
    parameters: Mapping[str, object],
    options: CommitOptions | None = None,
) -> Manifest:
    """The newest version of `table` with a new index, in place of an older one of its name.

    If other writers move or change indexed values meanwhile, or remove the version that is read, the index is built
    again.

    Args:
        column: a name or a dotted path into structs.
        kind: such as BTREE, in any case.
        name: None for the column's path and ``_idx``.
        replace: False refuses if the table has an index of this name.
        parameters: those of the kind, and for all kinds `train` (False makes an index that covers no rows yet) and
            `num_segments`.

    Raises:
        NotFoundError: no such column.
        AlreadyExistsError: the name is taken, and `replace` is False.
        InvalidInputError: the kind, its parameters, the column's type or the name is invalid.
        CommitConflictError: other writers were always first. Nothing was changed.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing was changed.
        UnsupportedFeatureError: the table needs something that this release does not write.
    """
    train, num_segments, own = split_parameters(parameters)
    table.history.check_commits()

    def attempt(base: Manifest) -> Manifest:
        definition = define(base, column, kind, name, own)
        taken = any(index.name == definition.name for index in parse_indices(base.index_section))
        if taken and not replace:
            raise AlreadyExistsError(
                f"{table.uri} has an index {definition.name!r}; replace it, or choose another name"
            )
        segments: list[IndexMetadata] = []
        with again_if_removed(table, base), removing_on_failure(table, segments):
            if train:
                parts = _parts([fragment.id for fragment in base.fragments], num_segments)
                definition = trained(base, table.bases(base), definition)
                segments.extend(build_segment(table, base, definition, part) for part in parts)
            else:
                segments.append(empty_segment(table, base, definition))
            return commit_indices(table, base, segments, options)

    policy = options.policy if options else None
    return retry_on_conflict(attempt, table.newest(), table.newest, policy, max_attempts=_MAX_ATTEMPTS)


def empty_segment(table: TableLocation, manifest: Manifest, definition: IndexDefinition) -> IndexMetadata:
    """A segment that covers nothing: it records what is to be indexed. Raises as `build_segment`."""
    builder = definition.builder
    return write_segment(
        table, manifest, definition, [], lambda output: builder.train(IndexedRows.none(builder.dtype), output)
    )


@contextmanager
def removing_on_failure(table: TableLocation, segments: Collection[IndexMetadata]) -> Iterator[None]:
    """Removes the files of `segments` if the block fails, unless a version may have them."""
    done = False
    try:
        yield
        done = True
    except CommitStateUnknownError:
        done = True
        raise
    finally:
        if not done:
            remove_segments(table, segments)


@contextmanager
def again_if_removed(table: TableLocation, base: Manifest) -> Iterator[None]:
    """Makes a conflict of a missing file if a clean-up has removed `base`, the version that the block reads.

    Raises:
        RetryableConflictError: in place of a `NotFoundError`.
    """
    try:
        yield
    except NotFoundError as error:
        if not table.bases(base).is_removed:
            raise
        raise RetryableConflictError(f"{error}") from error


def split_parameters(parameters: Mapping[str, object]) -> tuple[bool, int, dict[str, object]]:
    """(`train`, `num_segments`, the parameters of the kind)."""
    train = parameters.get("train", True)
    if not isinstance(train, bool):
        raise InvalidInputError(f"train is {train!r}; it must be true or false")
    num_segments = positive_number("an index", "num_segments", parameters.get("num_segments", 1))
    return train, num_segments, {name: value for name, value in parameters.items() if name not in _COMMON}


def _parts(fragment_ids: Sequence[int], num_parts: int) -> list[Sequence[int]]:
    """Fragments in parts of about equal numbers; one part if there are none.

    >>> _parts([0, 1, 2, 5, 7], 2)
    [[0, 1], [2, 5, 7]]
    """
    num_parts = max(1, min(num_parts, len(fragment_ids)))
    bounds = [len(fragment_ids) * part // num_parts for part in range(num_parts + 1)]
    return [fragment_ids[start:stop] for start, stop in pairwise(bounds)]


def trained(manifest: Manifest, bases: Bases, definition: IndexDefinition) -> IndexDefinition:
    """The definition with a model trained from rows of a version, so that segments built apart fit each other.

    It is `definition` itself for kinds of index that need no model.

    Raises:
        CorruptFileError: a file contradicts the format.
        NotFoundError: a file does not exist any more.
        StorageError: the store failed.
    """
    scan = index_scan(manifest, bases, definition)
    num_rows = sum(scan.counts(manifest.fragments))
    sample_size = definition.builder.sample_rows(num_rows)
    if not sample_size:
        return definition
    # Some rows more than asked for: those without a vector are no use.
    places = np.random.default_rng(_SEED).choice(
        num_rows, min(num_rows, sample_size + sample_size // 4 + 16), replace=False
    )
    sample = Take(scan, [(scan, manifest.fragments)]).rows(np.sort(places).tolist())
    rows = indexed_rows(sample.to_batches(), manifest, definition)
    return replace(definition, builder=definition.builder.trained(rows, num_rows))
