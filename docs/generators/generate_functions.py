"""Writes the table of `docs/reference/functions.md`: the arguments of the table functions that search.

`python docs/generators/generate_functions.py` writes; with `--check` it fails if the page is out of date.
"""

from __future__ import annotations

from pathlib import Path

from cells import cell
from generated_page import main

from lance_spark.spark.connector.procedures import search_procedures
from lance_spark.spark.connector.search import batch_search, hybrid_search, text_search, vector_search

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "functions.md"

FUNCTIONS = {
    "search": text_search,
    "vector_search": vector_search,
    "vector_search_batch": batch_search,
    "hybrid_search": hybrid_search,
}

MEANINGS = {
    "table": "name of the table, `db.t` or `lance.db.t`",
    "query_vector": "the values of the vector; several vectors are several queries",
    "version": "a version by number",
    "branch": "a branch",
    "tag": "a version by tag",
    "timestamp": "the newest version at this time",
    "queries": "name of a Lance table with a row for each query",
    "query_column": "the column of `queries` with the vectors; the only one, if it is left out",
    "query_columns": "columns of `queries` in the result; all others, if it is left out",
    "num_results": "the same as `k`",
    "search_query": "the same as `query`",
    "num_candidates": "the same as `candidates`",
    "candidate_count": "the same as `candidates`",
}
"""Meanings of arguments that procedures do not have, or that have other values there."""


def arguments() -> dict[str, list[str]]:
    """The functions that take each argument."""
    taken: dict[str, list[str]] = {}
    for function, module in FUNCTIONS.items():
        for name in module._KNOWN:
            taken.setdefault(name, []).append(function)
    return taken


def meanings() -> dict[str, str]:
    """The meaning of each argument."""
    comments = {item.name: item.comment for items in search_procedures._PARAMETERS.values() for item in items}
    return comments | MEANINGS | {"limit": f"{comments['limit']}; with vectors the same as `k`"}


def table() -> str:
    """The table in Markdown: a row for each argument, a column for each function.

    A number is the place of an argument that may come without a name.
    """
    heads = " | ".join(f"`{name}`" for name in FUNCTIONS)
    lines = [f"| argument | {heads} | meaning |", f"|---|{'---|' * len(FUNCTIONS)}---|"]
    described = meanings()
    for name, functions in sorted(arguments().items(), key=lambda item: (_place(item[0]), item[0])):
        marks = [_mark(name, function) if function in functions else "" for function in FUNCTIONS]
        lines.append(f"| `{name}` | {' | '.join(marks)} | {cell(described[name])} |")
    return "\n".join(lines)


def _place(name: str) -> int:
    """The first place that an argument has without its name; behind all others for one that needs its name."""
    positional = [module._POSITIONAL for module in FUNCTIONS.values()]
    return min([names.index(name) for names in positional if name in names], default=len(MEANINGS))


def _mark(name: str, function: str) -> str:
    positional = FUNCTIONS[function]._POSITIONAL
    return str(positional.index(name) + 1) if name in positional else "yes"


if __name__ == "__main__":
    raise SystemExit(main(PAGE, Path(__file__).name, table()))
