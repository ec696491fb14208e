"""Writes the sections of `docs/reference/procedures.md`: parameters and results of all procedures of a catalog.

`python docs/generators/generate_procedures.py` writes; with `--check` it fails if the page is out of date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType

from cells import cell
from generated_page import main
from pyspark.sql.types import DataType, StructType

from lance_spark.spark.connector.procedures import procedures
from lance_spark.spark.connector.procedures.procedure_types import Procedure

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "procedures.md"

GROUPS = {
    "Maintenance": ("maintenance_procedures", "analyze_procedure"),
    "Versions, tags and branches": ("version_procedures", "branch_procedures"),
    "Columns": ("column_procedures",),
    "Partitions": ("partition_procedures",),
    "Indexes": ("index_procedures", "index_optimization"),
    "Searches": ("search_procedures",),
    "Catalog": ("catalog_procedures", "import_procedure"),
    "Streaming": ("stream_procedures",),
}
"""The modules whose procedures a section has."""

SEARCH_RESULTS = {
    "search": "the columns of the table, or of `columns`, and `_score FLOAT`",
    "vector_search": "the columns of the table, or of `columns`, and `_distance FLOAT`",
    "hybrid_search": "the columns of the table, or of `columns`, and `_distance FLOAT`, `_score FLOAT`, "
    "`_relevance_score FLOAT`",
}
"""Results that depend on the table."""


def result_columns(procedure: Procedure) -> StructType | None:
    """The schema of the rows, which the functions of a procedure name; None if it depends on the table.

    Raises:
        ValueError: they name several.
    """
    functions = [item for item in (procedure.call, procedure.finish) if item is not None]
    found = {schema.json(): schema for function in functions for schema in _schemas(function, set())}
    if len(found) > 1:
        raise ValueError(f"procedure {procedure.name} names several schemas: {', '.join(found)}")
    return next(iter(found.values()), None)


def _schemas(function: Callable[..., object], seen: set[str]) -> Iterator[StructType]:
    """The schemas that a function, or a function of its module that it calls, names."""
    if not isinstance(function, FunctionType) or function.__qualname__ in seen:
        return
    seen.add(function.__qualname__)
    for name in _names(function.__code__):
        value = function.__globals__.get(name)
        if isinstance(value, StructType):
            yield value
        elif getattr(value, "__module__", None) == function.__module__:
            yield from _schemas(value, seen)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def groups() -> Iterator[tuple[str, list[list[Procedure]]]]:
    """The groups, with procedures that differ in their names alone together."""
    modules = {module.__name__.rpartition(".")[2]: module for module in procedures._MODULES}
    for title, names in GROUPS.items():
        alike: dict[object, list[Procedure]] = {}
        for procedure in (item for name in names for item in modules[name].PROCEDURES):
            alike.setdefault((procedure.description, procedure.parameters), []).append(procedure)
        yield title, list(alike.values())


def generated() -> str:
    """The table of all procedures, and a section for each group."""
    overview = ["| procedure | purpose |", "|---|---|"]
    sections = []
    for title, group in groups():
        overview += [f"| {_links(alike)} | {_sentence(alike[0].description)} |" for alike in group]
        sections += [f"## {title}", *map(_section, group)]
    return "\n\n".join(["\n".join(overview), *sections])


def _title(alike: list[Procedure]) -> str:
    return ", ".join(item.name for item in alike)


def _links(alike: list[Procedure]) -> str:
    anchor = _title(alike).replace(",", "").replace(" ", "-")
    return ", ".join(f"[`{item.name}`](#{anchor})" for item in alike)


def _sentence(text: str) -> str:
    return cell(f"{text[0].upper()}{text[1:].rstrip('.')}.")


def _section(alike: list[Procedure]) -> str:
    first = alike[0]
    rows = [
        f"| `{item.name}` | `{_type(item.type)}` | {'required' if item.required else 'NULL'} | {cell(item.comment)} |"
        for item in first.parameters
    ]
    parameters = ["| parameter | type | default | meaning |", "|---|---|---|---|", *rows]
    return "\n\n".join(
        [f"### {_title(alike)}", _sentence(first.description), "\n".join(parameters), f"Returns {_result(first)}."]
    )


def _result(procedure: Procedure) -> str:
    schema = result_columns(procedure)
    if schema is None:
        return SEARCH_RESULTS[procedure.name]
    return ", ".join(f"`{field.name} {_type(field.dataType)}`" for field in schema.fields)


def _type(dtype: DataType) -> str:
    return str(dtype.simpleString()).upper()


if __name__ == "__main__":
    raise SystemExit(main(PAGE, Path(__file__).name, generated()))
