"""The settings of a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from lance_spark.errors import InvalidInputError
from lance_spark.namespace.dropped_retention import DEFAULT_RETENTION
from lance_spark.spark.option_values import (
    DIRECTORY,
    REST,
    Option,
    boolean_value,
    by_folded_name,
    implementation_value,
    text_value,
)
from lance_spark.spark.options.names import STORAGE_PREFIX, parse_options
from lance_spark.table.cleanup.auto_cleanup import parse_retention

_HEADER = "header."
_RETENTION = "dropped_table_retention"
_OF_CLASS_CATALOG = frozenset({"impl", "parent", "parent_delimiter", "enable_stable_row_ids"})
CATALOG = by_folded_name(
    {
        "root": Option("root", text_value),
        "impl": Option("impl", implementation_value),
        "uri": Option("uri", text_value),
        "parent": Option("parent", text_value),
        "parent_delimiter": Option("parent_delimiter", text_value),
        "enable_stable_row_ids": Option("enable_stable_row_ids", boolean_value),
        _RETENTION: Option(_RETENTION, parse_retention),
    }
)


@dataclass(frozen=True, slots=True)
class CatalogOptions:
    """The settings of a catalog, ``spark.sql.catalog.<name>.*``.

    Attributes:
        impl: the namespace: "dir", a folder; "rest", a server; or the class of one.
        root: the folder.
        uri, headers: the server, and the headers of every request to it.
        properties: what the class of a namespace is made with.
        parent, parent_delimiter: the levels above the catalog's root in the namespace, and what is between them.
        enable_stable_row_ids: whether new tables in the catalog get stable row ids by default.
        dropped_table_retention: how long files of dropped tables are kept; None: until somebody purges them.
    """

    impl: str = DIRECTORY
    root: str | None = None
    uri: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    parent: str | None = None
    parent_delimiter: str = "."
    enable_stable_row_ids: bool = False
    dropped_table_retention: timedelta | None = DEFAULT_RETENTION
    storage_options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, settings: Mapping[str, str]) -> CatalogOptions:
        """Parses the settings, without their common prefix.

        Raises:
            InvalidInputError: an unknown name, or an invalid value.
        """
        impl = next((value for name, value in settings.items() if name.lower() == "impl"), DIRECTORY)
        if "." in impl:
            ours = {name: value for name, value in settings.items() if _is_of_class_catalog(name)}
            rest = {name: value for name, value in settings.items() if name not in ours or _is_storage(name)}
            return cls(**parse_options(ours, CATALOG, needs_path=False), properties=rest)
        headers = {name[len(_HEADER) :]: value for name, value in settings.items() if name.lower().startswith(_HEADER)}
        others = {name: value for name, value in settings.items() if not name.lower().startswith(_HEADER)}
        options = cls(**parse_options(others, CATALOG, needs_path=False), headers=headers)
        of_servers = {"uri", "parent", "parent_delimiter"} & {name.lower() for name in settings}
        if options.impl == DIRECTORY and (of_servers or headers):
            raise InvalidInputError("uri, header.* and parent are for catalogs with impl = rest")
        if options.impl == REST and (options.uri is None or options.root is not None):
            raise InvalidInputError("a catalog with impl = rest has the setting uri, the server's address, and no root")
        if options.impl == REST and any(name.lower() == _RETENTION for name in settings):
            raise InvalidInputError(f"{_RETENTION} is for catalogs with impl = dir; a server decides itself")
        return options

    @property
    def parent_levels(self) -> tuple[str, ...]:
        """The levels above the catalog's root."""
        return tuple(self.parent.split(self.parent_delimiter)) if self.parent else ()


def _is_of_class_catalog(name: str) -> bool:
    """Whether a setting of a catalog by a class is ours; all others are the class's."""
    return name.lower() in _OF_CLASS_CATALOG or _is_storage(name)


def _is_storage(name: str) -> bool:
    return name.lower().startswith(STORAGE_PREFIX)
