"""The settings of a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from lance_spark.errors import InvalidInputError
from lance_spark.namespace.directory.dropped_retention import DEFAULT_RETENTION
from lance_spark.namespace.opening import DIRECTORY, CatalogPlace, check_kind
from lance_spark.namespace.settings import is_header
from lance_spark.spark.option_values import Option, boolean_value, by_folded_name, text_value
from lance_spark.spark.options.names import STORAGE_PREFIX, parse_options
from lance_spark.table.cleanup.auto_cleanup import parse_retention

_RETENTION = "dropped_table_retention"
CATALOG = by_folded_name(
    {
        "root": Option("root", text_value),
        "impl": Option("impl", check_kind),
        "parent": Option("parent", text_value),
        "parent_delimiter": Option("parent_delimiter", text_value),
        "single_level_ns": Option("single_level_ns", boolean_value),
        "enable_stable_row_ids": Option("enable_stable_row_ids", boolean_value),
        _RETENTION: Option(_RETENTION, parse_retention),
    }
)
_OF_DIRECTORIES = frozenset({"root", _RETENTION})
_OF_OTHERS = frozenset({"parent", "parent_delimiter"})


@dataclass(frozen=True, slots=True)
class CatalogOptions:
    """The settings of a catalog, ``spark.sql.catalog.<name>.*``.

    Attributes:
        impl: the namespace: "dir", a folder; a kind of `opening.KINDS`; or the class of one.
        root: the folder.
        properties: the settings of another kind of catalog, or what the class of one is made with.
        parent, parent_delimiter: the levels above the catalog's root in the namespace, and what is between them.
        single_level_ns: whether the tables of the root are shown in a namespace `default`, beside which there is none.
        enable_stable_row_ids: whether new tables in the catalog get stable row ids by default.
        dropped_table_retention: how long files of dropped tables are kept; None: until somebody purges them.
    """

    impl: str = DIRECTORY
    root: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    parent: str | None = None
    parent_delimiter: str = "."
    single_level_ns: bool = False
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
        if impl.strip().lower() == DIRECTORY:
            foreign = [name for name in settings if name.lower() in _OF_OTHERS | {"uri"} or is_header(name)]
            if foreign:
                raise InvalidInputError(
                    f"setting {foreign[0]} is for catalogs with another impl than dir, such as rest"
                )
            return cls(**parse_options(settings, CATALOG, needs_path=False))
        ours = {name: value for name, value in settings.items() if _is_of_every_catalog(name)}
        others = {name: value for name, value in settings.items() if name not in ours}
        if "." in impl:
            others |= {name: value for name, value in ours.items() if _is_storage(name)}
        elif any(name.lower() == _RETENTION for name in others):
            raise InvalidInputError(f"{_RETENTION} is for catalogs with impl = dir; others decide themselves")
        return cls(**parse_options(ours, CATALOG, needs_path=False), properties=others)

    def place(self, *, case_sensitive: bool = True) -> CatalogPlace:
        """Which catalog it is.

        Args:
            case_sensitive: whether names that differ only in case are different.
        """
        parent = tuple(self.parent.split(self.parent_delimiter)) if self.parent else ()
        return CatalogPlace(
            self.impl,
            self.root,
            self.properties,
            parent,
            self.storage_options,
            distinct_when_folded=not case_sensitive,
            single_level=self.single_level_ns,
        )


def _is_of_every_catalog(name: str) -> bool:
    return (name.lower() in CATALOG and name.lower() not in _OF_DIRECTORIES) or _is_storage(name)


def _is_storage(name: str) -> bool:
    return name.lower().startswith(STORAGE_PREFIX)
