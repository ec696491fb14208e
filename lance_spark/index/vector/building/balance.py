"""Splits partitions that have become too large and dissolves those that have become too small, when segments merge.

As in the reference library a partition of more than four times the target is split, one of less than a quarter is
dissolved. If the index does not say its target, that of its kind is taken, and a partition must also be out of
proportion to the others: the user may have asked for a number of partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lance_spark.index.vector.building import kmeans
from lance_spark.index.vector.building.model import VectorModel
from lance_spark.index.vector.building.segment_files import StoredRows, coded_rows
from lance_spark.index.vector.building.training import TrainingParameters, assigned
from lance_spark.index.vector.building.vectors import VectorRows, stored_form, working_form
from lance_spark.index.vector.metrics import Metric, Vectors

Float32Array = npt.NDArray[np.float32]
Int64Array = npt.NDArray[np.int64]
UInt64Array = npt.NDArray[np.uint64]
VectorsOfRows = Callable[[UInt64Array], VectorRows]
"""The vectors of the rows with some ids, read from the table."""

_OUT_OF_TARGET = 4
_OUT_OF_PROPORTION = 8
_MOST_CHANGES = 64
"""Partitions that one merge splits or dissolves. The rest waits for the next one, as rows are read for each."""
_MOST_PIECES = 64


@dataclass(frozen=True)
class Changes:
    """The partitions that a merge changes.

    Attributes:
        pieces: into how many pieces a partition is split, by its number.
        dissolved: numbers of partitions whose rows go to others.
        sample_rate: vectors of the sample that each piece is trained from.
        seed: of random choices.
    """

    pieces: dict[int, int]
    dissolved: tuple[int, ...]
    sample_rate: int
    seed: int


def merged_rows(
    model: VectorModel,
    stored: StoredRows,
    new: VectorRows,
    parameters: TrainingParameters,
    vectors_of: VectorsOfRows | None,
) -> tuple[VectorModel, StoredRows]:
    """(the model of a merged segment, all of its rows coded by it).

    Args:
        model: that of `stored`.
        stored: rows of old segments.
        new: rows that no segment has.
        vectors_of: reads rows of `stored`; None if all of them are to stay in their partitions.

    Raises:
        LanceError: vectors cannot be read.
    """
    coded = coded_rows(model, new)
    if vectors_of is not None:
        sizes = np.bincount(np.concatenate([stored.labels, coded.labels]), minlength=len(model.centroids))
        changes = changes_of(model, sizes, parameters)
        if changes is not None:
            return rebalanced(model, stored, new, changes, vectors_of)
    return model, StoredRows.joined([stored, coded])


def changes_of(model: VectorModel, sizes: Int64Array, parameters: TrainingParameters) -> Changes | None:
    """Changes that make partitions of these sizes even; None if they are.

    Args:
        sizes: int64[p]: live rows of each partition.
    """
    most, least, target = _limits(sizes, parameters)
    largest = np.argsort(-sizes, kind="stable")[:_MOST_CHANGES].tolist()
    too_large = [label for label in largest if sizes[label] > most]
    pieces = {label: min(_MOST_PIECES, max(2, round(sizes[label] / target))) for label in too_large}
    dissolved = _dissolved(model, sizes, least, _MOST_CHANGES - len(pieces))
    if not pieces and not dissolved:
        return None
    return Changes(pieces, tuple(dissolved), parameters.sample_rate, parameters.seed)


def rebalanced(
    model: VectorModel,
    stored: StoredRows,
    new: VectorRows,
    changes: Changes,
    vectors_of: VectorsOfRows,
) -> tuple[VectorModel, StoredRows]:
    """(the model with changed centroids, all rows coded by it).

    Rows of changed partitions go to the nearest of all new centroids. The others stay where they are, with their codes.

    Args:
        model: that of `stored`.
        stored: rows of old segments.
        new: rows that no segment has.
        vectors_of: reads the vectors of rows of `stored` with some ids.

    Raises:
        LanceError: vectors cannot be read.
    """
    changed = [*changes.pieces, *changes.dissolved]
    ids = np.unique(stored.ids[np.isin(stored.labels, changed)])
    read = vectors_of(ids)
    # A row with several vectors is also in other partitions: all of its vectors were read.
    kept = stored.taken(~np.isin(stored.ids, ids))
    moved = VectorRows(np.concatenate([read.vectors, new.vectors]), np.concatenate([read.ids, new.ids]))
    changed_model, numbers = _changed_model(model, moved, changes)
    kept = StoredRows(kept.ids, numbers[kept.labels], kept.columns)
    return changed_model, StoredRows.joined([kept, coded_rows(changed_model, moved)])


def _limits(sizes: Int64Array, parameters: TrainingParameters) -> tuple[float, float, float]:
    """(rows above which a partition is split, rows below which it is dissolved, rows of each piece)."""
    target, mean = parameters.target_rows, sizes.sum() / len(sizes)
    most, least = target * _OUT_OF_TARGET, target / _OUT_OF_TARGET
    if parameters.target_partition_size:
        return most, least, target
    return max(most, mean * _OUT_OF_PROPORTION), min(least, mean / _OUT_OF_PROPORTION), max(target, mean)


def _dissolved(model: VectorModel, sizes: Int64Array, least: float, count: int) -> list[int]:
    """The smallest partitions, one after the other; each is taken to go into the nearest of the others as a whole."""
    points, by_product = working_form(model.centroids), model.metric is Metric.DOT
    sizes, rest = sizes.copy(), np.arange(len(sizes))
    found: list[int] = []
    while len(found) < count and len(rest) > 1:
        label = int(rest[sizes[rest].argmin()])
        if sizes[label] >= least:
            break
        rest = rest[rest != label]
        (nearest,), _ = kmeans.assign(points[[label]], np.ascontiguousarray(points[rest]), by_product=by_product)
        sizes[rest[nearest]] += sizes[label]
        found.append(label)
    return found


def _changed_model(
    model: VectorModel, moved: VectorRows, changes: Changes
) -> tuple[VectorModel, npt.NDArray[np.int32]]:
    """(the model with changed centroids, int32[p]: the new numbers of partitions; those of changed ones mean nothing).

    The first piece takes the place of a partition, the others follow after all partitions.
    """
    centroids, added = model.centroids.copy(), []
    labels = assigned(model, moved.vectors)
    for label, count in changes.pieces.items():
        own = moved.vectors[labels == label]
        if not len(own):
            continue  # Another writer has put rows here that are nearer to other centroids.
        first, *others = _pieces(model, own, count, changes)
        centroids[label] = first
        added += others
    stays = ~np.isin(np.arange(len(centroids)), changes.dissolved)
    parts: list[npt.NDArray[Any]] = [centroids[stays], *(piece[None] for piece in added)]
    numbers = (np.cumsum(stays) - 1).astype(np.int32)
    # The loss was that of other centroids.
    return replace(model, centroids=np.concatenate(parts), loss=None), numbers


def _pieces(model: VectorModel, vectors: Vectors, count: int, changes: Changes) -> Vectors:
    """[k, d]: the centroids of the pieces of a partition; fewer than `count` if its vectors are few or the same.

    Args:
        vectors: [n, d], n >= 1.
    """
    chosen = VectorRows(vectors, np.arange(len(vectors), dtype=np.uint64))
    sample = working_form(chosen.sample(count * changes.sample_rate, changes.seed).vectors)
    spherical = model.metric is Metric.DOT
    found = kmeans.train(sample, count, seed=changes.seed, spherical=spherical)
    return stored_form(found.centroids[np.unique(found.labels)], model.centroids.dtype)
