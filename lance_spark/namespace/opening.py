"""Opens catalogs by their kind: the value of the setting `impl`, or the argument of `lance_spark.connect`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib import import_module

from lance_spark.errors import InvalidInputError
from lance_spark.namespace.base import Namespace
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.namespace.object_id import Identifier
from lance_spark.namespace.single_level import SingleLevelNamespace
from lance_spark.storage.options import EXPIRES, RENEWAL

DIRECTORY = "dir"
KINDS: Mapping[str, str] = {
    "rest": "served.rest.RestNamespace",
    "glue": "external.glue.GlueCatalog",
    "hive": "external.hive.HiveCatalog",
    "hive2": "external.hive.HiveCatalog",
    "hive3": "external.hive3.Hive3Catalog",
    "iceberg": "external.iceberg_rest.IcebergRestCatalog",
    "polaris": "external.polaris.PolarisCatalog",
    "unity": "external.unity.UnityCatalog",
}
"""Catalogs that somebody else keeps: their classes in this package, which are imported when they are asked for."""


ADDRESSES: Mapping[str, str] = {
    "rest": "uri",
    "glue": "root",
    **dict.fromkeys(("hive", "hive2", "hive3"), "uri"),
    **dict.fromkeys(("iceberg", "polaris", "unity"), "endpoint"),
}
"""The setting of each kind that says where the catalog is."""


@dataclass(frozen=True, slots=True)
class CatalogPlace:
    """Which catalog it is.

    Attributes:
        impl: "dir"; a key of `KINDS`; or ``package.Class`` with the interface ``LanceNamespace``.
        root: the folder of a directory catalog.
        settings: of other catalogs, by name.
        parent: the levels above the catalog's root, which stand before each name.
        storage_options: credentials and endpoint of the store.
        distinct_when_folded: whether new names must differ from others in more than case, where we keep the names.
        single_level: whether the tables of the root are shown in a namespace `default`, beside which there is none.
    """

    impl: str = DIRECTORY
    root: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    parent: Identifier = ()
    storage_options: Mapping[str, str] = field(default_factory=dict)
    distinct_when_folded: bool = False
    single_level: bool = False

    def open(self) -> Namespace:
        """The names of the catalog.

        Raises:
            InvalidInputError: a directory catalog has no root, or the settings are not those of this kind.
            StorageError: a package that the kind needs is not installed.
        """
        names = self._whole()
        names.renewable = self.renewable
        return SingleLevelNamespace(names) if self.single_level else names

    def renewable(self, identifier: Identifier, options: Mapping[str, str]) -> dict[str, str]:
        """Storage options that this catalog has sent for a table, with what renews them if they end.

        Args:
            identifier: the name of the table in the whole catalog.
        """
        if EXPIRES not in options:
            return dict(options)
        return {**options, RENEWAL: json.dumps({"place": asdict(self), "identifier": identifier})}

    def _whole(self) -> Namespace:
        if self.impl == DIRECTORY:
            return self.directory()
        if self.impl in KINDS:
            return _opened(self.impl, _pairs(self.settings), self.parent, _pairs(self.storage_options))
        from lance_spark.namespace.served.interface import InterfaceNamespace

        return InterfaceNamespace(self.impl, self.settings, self.parent)

    def directory(self) -> DirectoryNamespace:
        """The names of a directory catalog.

        Raises:
            InvalidInputError: it has no root.
        """
        if self.root is None:
            raise InvalidInputError("a catalog with impl = dir needs the setting root, its folder")
        return DirectoryNamespace(self.root, self.storage_options, distinct_when_folded=self.distinct_when_folded)


def renewed(text: str) -> Mapping[str, str]:
    """The storage options of a table as its catalog sends them now.

    Raises:
        InvalidInputError: the option was not made by `CatalogPlace.renewable`.
        LanceError: the catalog does not respond, or the table was dropped.
    """
    try:
        told = json.loads(text)
        # The identifier is that of the whole catalog.
        fields = {**told["place"], "parent": tuple(told["place"]["parent"]), "single_level": False}
        place, identifier = CatalogPlace(**fields), tuple(told["identifier"])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"storage option {RENEWAL} is set by catalogs only") from error
    return place.open().table_location(identifier).storage_options


def check_kind(impl: str) -> str:
    """`impl` in the spelling that `CatalogPlace` takes. Raises `ValueError` saying what is expected."""
    text = impl.strip()
    if text.lower() in (DIRECTORY, *KINDS):
        return text.lower()
    if "." not in text or not all(part.isidentifier() for part in text.split(".")):
        raise ValueError(f"one of {', '.join((DIRECTORY, *KINDS))}, or the package.Class of a namespace")
    return text


@lru_cache(maxsize=16)
def _opened(
    impl: str, settings: tuple[tuple[str, str], ...], parent: Identifier, storage: tuple[tuple[str, str], ...]
) -> Namespace:
    """A catalog that somebody else keeps; equal settings share its pooled connections."""
    module, _, name = KINDS[impl].rpartition(".")
    kind = getattr(import_module(f"lance_spark.namespace.{module}"), name)
    found: Namespace = kind.of_settings(dict(settings), parent, dict(storage))
    return found


def _pairs(settings: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(settings.items()))
