"""Catalogs of every kind, with nothing in them, over servers in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from lance.namespace import RestAdapter

from lance_spark.catalog import Catalog
from lance_spark.namespace.base import Namespace
from lance_spark.namespace.opening import CatalogPlace
from tests.support.external_catalogs import KINDS as EXTERNAL
from tests.support.external_catalogs import ExternalCatalog, external_catalog
from tests.support.moto import S3Bucket

CLASS = "package.Class"
KINDS = ("dir", "rest", CLASS, *EXTERNAL)

ROWS = pa.table({"id": [1, 2, 3], "k": ["x", "x", "y"]})

_NUMBERS = iter(range(1, 1000))
"""Databases of Glue outlive a catalog of a test."""


@dataclass
class Tried:
    """A catalog, and a namespace of it for each operation.

    Attributes:
        place: the catalog.
        outer: the catalog with what serves it; None for those that are not external.
        bucket: a store.
        folder: an empty folder beside the catalog's.
        served: the folder of a server that takes paths below it, and no URI.
    """

    kind: str
    place: CatalogPlace
    folder: Path
    bucket: S3Bucket
    outer: ExternalCatalog | None = None
    count: int = 0
    served: Path | None = None

    @property
    def names(self) -> Namespace:
        return self.place.open()

    @property
    def catalog(self) -> Catalog:
        return Catalog(self.place)

    def database(self, **properties: str) -> str:
        """A new namespace."""
        self.count += 1
        name = f"db{self.count}"
        self.names.create_namespace((name,), properties)
        return name

    def written(self, database: str) -> str:
        """A new table `t` with rows."""
        self.catalog.create_table((database, "t"), ROWS)
        return self.names.table_location((database, "t")).uri


@contextmanager
def tried_catalog(kind: str, folder: Path, bucket: S3Bucket) -> Iterator[Tried]:
    """A catalog of a kind with nothing in it."""
    root, beside = folder / "root", folder / "beside"
    root.mkdir(parents=True)
    beside.mkdir()
    with ExitStack() as stack:
        if kind == "dir":
            yield Tried(kind, CatalogPlace(root=str(root)), beside, bucket)
        elif kind == CLASS:
            place = CatalogPlace("lance.namespace.DirectoryNamespace", settings={"root": str(root)})
            yield Tried(kind, place, beside, bucket, served=root)
        elif kind == "rest":
            adapter = stack.enter_context(RestAdapter("dir", {"root": str(root)}, host="127.0.0.1", port=0))
            place = CatalogPlace("rest", settings={"uri": f"http://127.0.0.1:{adapter.port}"})
            yield Tried(kind, place, beside, bucket, served=root)
        else:
            outer = stack.enter_context(external_catalog(kind, str(root), bucket.endpoint))
            place = CatalogPlace(kind, settings=outer.settings, parent=outer.parent)
            yield Tried(kind, place, beside, bucket, outer, count=next(_NUMBERS) * 1000)
