"""Definitions of views as catalogs keep them: JSON objects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.namespace.view_texts import unreadable_view
from lance_spark.spark.connector.channel.codec import decode, encode

FORMAT = 1
"""Of the definitions that this release writes."""

_VIEW = "VIEW"
_KIND = "table_type"
_EVOLUTION = "EVOLUTION"
_UNREADABLE = (InvalidInputError, PySparkException, ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""The errors that wrong JSON of a struct type raises."""


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """A view as Spark describes it.

    Attributes:
        query: the text of the SELECT.
        current_catalog, current_namespace: where its names are looked up; None if Spark gave none.
        sql_configs: the settings of the session that made it, by which the text is read.
        schema_mode: what happens if the tables below have other columns now.
        query_columns: the names of the query's own columns.
        columns: of the view, a struct type of Spark as JSON text.
    """

    query: str
    columns: str
    current_catalog: str | None = None
    current_namespace: tuple[str, ...] = ()
    sql_configs: Mapping[str, str] = field(default_factory=dict)
    schema_mode: str | None = None
    query_columns: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


def definition_to_json(definition: ViewDefinition, catalog: str) -> str:
    """The text that a catalog keeps.

    Raises:
        UnsupportedFeatureError: it is no plain view, its columns are to follow those of its tables, or one has a
            user-defined type.
    """
    kind, mode = definition.properties.get(_KIND, _VIEW), definition.schema_mode or ""
    if kind != _VIEW:
        raise UnsupportedFeatureError(
            f"catalog {catalog} keeps plain views, and no {kind}; make a view of its SELECT", feature=kind
        )
    if _EVOLUTION in mode.upper():
        # Spark 4.3.0 writes the new columns to the view of this name in its session catalog.
        raise UnsupportedFeatureError(
            f"Spark does not keep the columns of a view WITH SCHEMA {mode} of catalog {catalog} up to date; leave the "
            "clause out, and use CREATE OR REPLACE VIEW for new columns",
            feature=f"WITH SCHEMA {mode}",
        )
    _check_columns(json.loads(definition.columns))
    return json.dumps({"format": FORMAT, **encode(definition)}, ensure_ascii=False, separators=(",", ":"))


def definition_from_json(text: str, name: str) -> ViewDefinition:
    """The definition of the view `name`.

    Raises:
        UnsupportedFeatureError: it is of a later format, or has a column of a user-defined type.
        CorruptFileError: it is no definition.
    """
    try:
        document = json.loads(text)
        if not isinstance(document, dict):
            raise ValueError("no JSON object")
        if document.get("format") != FORMAT:
            raise UnsupportedFeatureError(
                f"the view {name} is stored in format {document.get('format')!r}, and this release reads {FORMAT}; "
                "update lance-spark, or CREATE OR REPLACE the view",
                feature="view format",
            )
        definition = decode(ViewDefinition, document)
        described = json.loads(definition.columns)
        _check_columns(described)
        columns = StructType.fromJson(described)
        if len(definition.query_columns) not in (0, len(columns)):
            raise ValueError(f"{len(columns)} columns, and {len(definition.query_columns)} of the query")
    except UnsupportedFeatureError:
        raise
    except _UNREADABLE as error:
        raise unreadable_view(name, "", error) from error
    return definition


def _check_columns(described: object) -> None:
    """Passes if a struct type as JSON, or a part of it, has no user-defined types: Spark would load the classes that
    they name.
    """
    if isinstance(described, dict):
        if described.get("type") == "udt":
            raise UnsupportedFeatureError(
                "columns of views have no user-defined types; cast them to structs or arrays", feature="udt"
            )
        described = list(described.values())
    if isinstance(described, list):
        for part in described:
            _check_columns(part)
