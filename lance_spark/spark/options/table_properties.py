"""The properties and options of CREATE TABLE."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lance_spark.errors import InvalidInputError
from lance_spark.partitioned.table import FILE_VERSION, STABLE_ROW_IDS
from lance_spark.spark.options.names import STORAGE_PREFIX, WITHOUT_EFFECT, WRITE, known_option
from lance_spark.spark.options.options import WriteOptions
from lance_spark.spark.options.property_names import OF_ONE_WRITE, check_properties
from lance_spark.spark.types.column_properties import split_name

_OPTION_PREFIX = "option."
_OF_HIVE = ("hive.", "serialization.", "field.delim", "line.delim", "collection.delim", "mapkey.delim", "escape.delim")
_RESERVED_PROPERTIES = frozenset(
    {"provider", "location", "owner", "external", "is_managed_location", "comment", "path", "collation", "table_type"}
)
_OF_PARTITIONED = {
    FILE_VERSION: ("file_format_version", "data_storage_version"),
    STABLE_ROW_IDS: ("enable_stable_row_ids",),
}
"""The names under which SHOW CREATE TABLE of a partitioned table also has what these properties have decided."""

_BINARY = "UTF8_BINARY"


@dataclass(frozen=True, slots=True)
class TableProperties:
    """The properties and options of CREATE TABLE.

    Attributes:
        location: the LOCATION clause, None if the catalog chooses.
        config: the entries of the table's config: all that the user has set.
        options: the write options among the properties.
    """

    location: str | None
    config: Mapping[str, str]
    options: WriteOptions

    @classmethod
    def parse(cls, properties: Mapping[str, str], uri: str, options: Mapping[str, str]) -> TableProperties:
        """From the properties of the statement and the options of its write, which take precedence.

        Args:
            uri: the future location of the table.

        Raises:
            InvalidInputError: an invalid value or option, or a DEFAULT COLLATION, which columns added later would lack.
        """
        if properties.get("collation", _BINARY).upper() != _BINARY:
            raise InvalidInputError(
                "a table has no DEFAULT COLLATION; write the collation of each column, as in STRING COLLATE "
                f"{properties['collation']}"
            )
        given = {name: value for name, value in properties.items() if name.lower() not in _RESERVED_PROPERTIES}
        for stored, names in _OF_PARTITIONED.items():
            value = given.pop(stored, None)
            if value is not None and not any(name.lower() in names for name in given):
                given[names[0]] = value
        # Spark repeats the OPTIONS with a prefix.
        of_statement = {
            name[len(_OPTION_PREFIX) :].lower() for name in given if name.lower().startswith(_OPTION_PREFIX)
        }
        kept = {name: value for name, value in given.items() if not name.lower().startswith(_OPTION_PREFIX)}
        _check_statement_options(of_statement, given)
        check_properties({name: value for name, value in kept.items() if name.lower() not in of_statement})
        known = {name: value for name, value in kept.items() if _shapes_a_write(name)}
        named = {name.lower(): name for name in options}
        merged = {name: value for name, value in known.items() if name.lower() not in named} | dict(options)
        comment = properties.get("comment")
        once = WITHOUT_EFFECT.keys() | OF_ONE_WRITE
        config = {
            name: value
            for name, value in kept.items()
            if not name.lower().startswith(STORAGE_PREFIX) and name.lower() not in once
        }
        return cls(
            location=properties.get("location"),
            config=config if comment is None else {**config, "comment": comment},
            options=WriteOptions.parse({**_without_path(merged), "path": uri}),
        )


def _check_statement_options(names: Iterable[str], given: Mapping[str, str]) -> None:
    """Rejects unknown names in OPTIONS (...), STORED AS and ROW FORMAT.

    Raises:
        InvalidInputError: there is such a name.
    """
    hive = sorted(name for name in (*given, *names) if name.lower().startswith(_OF_HIVE))
    if hive:
        raise InvalidInputError(f"{hive[0]} is for tables of Hive; leave STORED AS and ROW FORMAT out")
    for name in names:
        if not name.startswith(STORAGE_PREFIX) and split_name(name) is None:
            known_option(name, name, WRITE)


def _shapes_a_write(name: str) -> bool:
    folded = name.lower()
    return folded in WRITE or folded.startswith(STORAGE_PREFIX) or split_name(folded) is not None


def _without_path(options: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in options.items() if name.lower() != "path"}
