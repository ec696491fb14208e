"""Catalogs on servers of `catalog_servers`, with the class of another project for the same server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import lance_namespace_impls as impls
import lance_namespace_urllib3_client as requests

from lance_spark.namespace.base import Namespace
from lance_spark.namespace.opening import CatalogPlace
from tests.support.catalog_servers import CatalogServer, serving
from tests.support.iceberg_servers import IcebergServer, PolarisServer
from tests.support.unity_server import UnityServer

KINDS = ("iceberg", "polaris", "unity")
_SERVERS = {"iceberg": IcebergServer, "polaris": PolarisServer, "unity": UnityServer}
_LEVELS = {"iceberg": "wh", "polaris": "cat", "unity": "unity"}
_CLASSES = {"iceberg": impls.IcebergNamespace, "polaris": impls.PolarisNamespace, "unity": impls.UnityNamespace}


class Theirs:
    """The class of lance-namespace-impls, with identifiers below the first level."""

    def __init__(self, kind: str, uri: str, root: str) -> None:
        prefix = "" if kind == "iceberg" else f"{kind}."
        self._level = _LEVELS[kind]
        self._names = _CLASSES[kind](**{f"{prefix}endpoint": uri, f"{prefix}root": root})

    def ask(self, operation: str, *path: str, **fields: Any) -> Any:
        model = getattr(requests, f"{''.join(word.title() for word in operation.split('_'))}Request")
        return getattr(self._names, operation)(model(id=[self._level, *path], **fields))


@dataclass(frozen=True)
class Opened:
    """A server, and the two that use it."""

    kind: str
    server: CatalogServer
    level: str
    root: str

    def ours(
        self,
        settings: Mapping[str, str] | None = None,
        parent: tuple[str, ...] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> Namespace:
        given = {"endpoint": self.server.uri, "root": self.root} if settings is None else settings
        place = CatalogPlace(
            impl=self.kind,
            settings={"endpoint": self.server.uri, **given},
            parent=(self.level,) if parent is None else parent,
            storage_options=storage_options or {},
        )
        return place.open()

    def theirs(self) -> Theirs:
        return Theirs(self.kind, self.server.uri, self.root)

    def listing(self) -> str:
        """The part of paths of listings of tables."""
        return "generic-tables" if self.kind == "polaris" else "tables"


@contextmanager
def opened(kind: str, root: str) -> Iterator[Opened]:
    server: CatalogServer = _SERVERS[kind]()
    with serving(server):
        yield Opened(kind, server, _LEVELS[kind], root)
