"""The opened files of a segment: centroids, codes and graphs. They are cached by the segment's folder."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.cached import cached_property
from lance_spark.index.files import IndexFiles
from lance_spark.index.vector.ivf import MODEL_FILE, STORAGE_FILE, IvfModel
from lance_spark.index.vector.metrics import Metric
from lance_spark.index.vector.storage import VectorStorage
from lance_spark.index.vector.stored.flat import FlatStorage
from lance_spark.index.vector.stored.graph import Graphs
from lance_spark.index.vector.stored.legacy import is_legacy, open_legacy
from lance_spark.index.vector.stored.product import ProductStorage
from lance_spark.index.vector.stored.rabit import RabitStorage
from lance_spark.index.vector.stored.scalar import ScalarStorage

_TRAILER_BYTES = 16

_STORAGES: dict[str, type[VectorStorage]] = {
    "FLAT": FlatStorage,
    "SQ": ScalarStorage,
    "PQ": ProductStorage,
    "RQ": RabitStorage,
}


@dataclass(frozen=True)
class OpenedSegment:
    """Opened files of a segment, for searches.

    Attributes:
        storage: vectors or codes, with the centroids.
        graphs: of an HNSW index, else None.
    """

    storage: VectorStorage
    graphs: Graphs | None

    @cached_property
    def model(self) -> IvfModel:
        """The centroids and the metric."""
        return self.storage.model

    @cached_property
    def has_exact_order(self) -> bool:
        """Whether its distances put rows in the right order."""
        return self.model.kind.endswith("_FLAT")

    @cached_property
    def has_exact_distances(self) -> bool:
        """Whether its distances are those of the table's own vectors, to the last bit."""
        return self.has_exact_order and self.model.metric is not Metric.COSINE


def open_segment(files: IndexFiles, dimension: int) -> OpenedSegment:
    """The files of a segment for vectors of `dimension` values.

    Raises:
        LanceError: a file is missing or broken, or of a kind that is not read.
    """

    def make() -> tuple[OpenedSegment, int]:
        opened = _opened(files, dimension)
        return opened, opened.model.centroids.nbytes + opened.storage.fixed_bytes

    return files.kept(MODEL_FILE, f"vectors of {dimension}", make)


def _opened(files: IndexFiles, dimension: int) -> OpenedSegment:
    if is_legacy(files.end(MODEL_FILE, _TRAILER_BYTES)):
        return OpenedSegment(open_legacy(files.path(MODEL_FILE), files.content(MODEL_FILE), dimension), None)
    model = IvfModel.read(files, dimension)
    storage = open_storage(files, model)
    graphs = Graphs.of(files.open(MODEL_FILE), len(model.centroids)) if model.has_graph else None
    return OpenedSegment(storage, graphs)


def open_storage(files: IndexFiles, model: IvfModel) -> VectorStorage:
    """The storage of a segment.

    Raises:
        LanceError: the file is missing or broken.
    """
    return _STORAGES[model.kind.rsplit("_", 1)[-1]].of(files.open(STORAGE_FILE), model)
