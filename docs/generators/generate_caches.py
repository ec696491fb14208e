"""Writes the tables of `docs/design/041-process-wide-caches.md` from the code.

`python docs/generators/generate_caches.py` writes; with `--check` it fails if the page is out of date.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

from generated_page import main

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "lance_spark"
PAGE = ROOT / "docs" / "design" / "041-process-wide-caches.md"

_MEMOS = ("lru_cache", "cache")
_CONTAINERS = ("dict", "list", "set", "OrderedDict", "defaultdict")
_CACHES = ("Cache", "LruCache", "PerProcess")
_STORED = ("cached_by_path", "cached_parts_by_path", "cached_by_etag", "put_by_etag", "cached_part", "cached_parts")

_REGISTRIES = frozenset(
    {
        ("encodings/registry.py", "_CODECS"),
        ("layouts/registry.py", "_LAYOUTS"),
        ("layouts/v2_0/registry.py", "_ENCODINGS"),
        ("spark/connector/channel/registry.py", "_operations"),
        ("storage/memory.py", "_objects"),
    }
)
"""Tables that imports fill, and the objects of `memory://`: no caches."""

_OWNERS: dict[tuple[str, str], tuple[str, str, str]] = {
    ("table/writing/row_pipeline.py", "_recent"): (
        "columns and metadata of table and rows",
        "8 pipelines",
        "the oldest goes",
    ),
    ("file/metadata.py", "_columns"): ("message of a column, its place", "4096 columns", "emptied when full"),
    ("kernels/compiler.py", "_dispatchers"): ("kernel", "the kernels that were compiled here", "never"),
    ("schema/wire.py", "_messages"): ("identity of the fields, which it holds", "16 lists", "the oldest goes"),
    ("spark/connector/channel/handles.py", "_versions"): (
        "table, version, moment",
        "32",
        "the least recently used goes",
    ),
    ("spark/connector/scan/planner.py", "_blob_sizes"): ("version, columns", "32", "the least recently used goes"),
    ("spark/connector/scan/planner.py", "_digests"): ("version", "32", "the least recently used goes"),
    ("spark/connector/scan/planner.py", "_searched_filters"): ("version, filter", "32", "the least recently used goes"),
    ("spark/connector/scan/planner.py", "_selectivities"): ("version, filter", "32", "the least recently used goes"),
    ("spark/streaming/history.py", "_kept_columns"): ("stream", "16 streams", "the least recently used goes"),
    ("storage/cache.py", "shared"): (
        "see below",
        "256 MiB, or `LANCE_SPARK_CACHE_BYTES`",
        "the least recently used goes; a fork begins empty",
    ),
    ("storage/conditional_put.py", "_trusted"): ("service", "the stores of the process", "never"),
    ("storage/overlap.py", "_pool"): ("process", "one pool", "a fork makes its own"),
    ("storage/s3/dynamodb.py", "_trusted"): ("client and table", "the tables of the process", "never"),
}
"""Key, bound and who empties it, of containers that live as long as the process; a new one must be added here."""


@dataclass(frozen=True, slots=True)
class Memo:
    """A function whose results are kept.

    Attributes:
        path: of the module in the package.
        key: its parameters.
        bound: results that are kept; None for no bound.
    """

    path: str
    name: str
    key: tuple[str, ...]
    bound: int | None


@dataclass(frozen=True, slots=True)
class Container:
    """A variable of a module that holds what is put into it while the process runs."""

    path: str
    name: str


@cache
def modules() -> list[tuple[str, ast.Module]]:
    """The modules of the package, by path."""
    files = [file for file in sorted(PACKAGE.rglob("*.py")) if "_proto" not in file.parts]
    return [(file.relative_to(PACKAGE).as_posix(), ast.parse(file.read_text(encoding="utf-8"))) for file in files]


def memos() -> list[Memo]:
    """Functions with `lru_cache` or `cache`, by module."""
    found = []
    for path, module in modules():
        functions = {node.name: node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)}
        for function in functions.values():
            kept = [decorator for decorator in function.decorator_list if _name(decorator) in _MEMOS]
            found += [_memo(path, function.name, function, decorator) for decorator in kept]
        for name, value in _assigned(module):
            # name = lru_cache(maxsize=8)(function)
            if isinstance(value, ast.Call) and _name(value.func) in _MEMOS and value.args:
                wrapped = value.args[0]
                function = functions.get(wrapped.attr if isinstance(wrapped, ast.Attribute) else ast.unparse(wrapped))
                found.append(_memo(path, name, function, value.func))
    return found


def containers() -> list[Container]:
    """Variables of modules that begin as an empty container, or are a cache; without registries."""
    found = []
    for path, module in modules():
        # A tuple that begins empty, and is replaced by longer ones.
        replaced = {name for node in ast.walk(module) if isinstance(node, ast.Global) for name in node.names}
        for name, value in _assigned(module):
            if _is_container(value) or (name in replaced and isinstance(value, ast.Tuple)):
                found.append(Container(path, name))
    return [item for item in found if (item.path, item.name) not in _REGISTRIES]


def stored() -> list[tuple[str, str]]:
    """(module, kind of value or part) of each call that puts a value into the cache of `storage/cache.py`."""
    found = []
    for path, module in modules():
        if path == "storage/cache.py":
            continue
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and _name(node) in _STORED and len(node.args) > 1:
                kinds = [text for text in ast.walk(node.args[1]) if isinstance(text, ast.Constant)]
                kind = next((str(text.value).strip() for text in kinds if isinstance(text.value, str)), "")
                found.append((path, kind or ast.unparse(node.args[1])))
    return found


def _memo(path: str, name: str, function: ast.FunctionDef | None, decorator: ast.expr) -> Memo:
    key = () if function is None else tuple(item.arg for item in function.args.args if item.arg not in ("self", "cls"))
    sizes = [item.value for item in decorator.keywords] if isinstance(decorator, ast.Call) else []
    bound = sizes[0].value if sizes and isinstance(sizes[0], ast.Constant) else None
    return Memo(path, name, key or (() if function is not None else ("its argument",)), bound)


def _name(node: ast.expr) -> str:
    if isinstance(node, (ast.Call, ast.Subscript)):
        return _name(node.func if isinstance(node, ast.Call) else node.value)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _assigned(module: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in module.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        for target in targets:
            if isinstance(target, ast.Name) and value is not None:
                yield target.id, value


def _is_container(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return _name(value) in _CACHES or (_name(value) in _CONTAINERS and not value.args)
    return (isinstance(value, ast.Dict) and not value.keys) or (isinstance(value, ast.List) and not value.elts)


def generated() -> str:
    """The generated part of the page."""
    functions, kept = memos(), containers()
    with_key = [memo for memo in functions if memo.key]
    single = [memo for memo in functions if not memo.key]
    lines = [
        f"{len(with_key)} functions with a key, {len(single)} values of the process, {len(kept)} containers.",
        "",
        "| function | key | bound (the least recently used goes) |",
        "|---|---|---|",
    ]
    for memo in with_key:
        bound = "one for each key" if memo.bound is None else str(memo.bound)
        lines.append(f"| `{memo.path}` `{memo.name}` | {', '.join(memo.key)} | {bound} |")
    lines += ["", "| values that a process makes once, and never empties | |", "|---|---|"]
    for room, of_room in groupby(single, lambda memo: memo.path.split("/")[0]):
        names = ", ".join(f"`{memo.path.removeprefix(room + '/')}` `{memo.name}`" for memo in of_room)
        lines.append(f"| `{room}` | {names} |")
    lines += ["", "| container | key | bound | emptied |", "|---|---|---|---|"]
    for item in kept:
        key, bound, emptied = _OWNERS[item.path, item.name]
        lines.append(f"| `{item.path}` `{item.name}` | {key} | {bound} | {emptied} |")
    lines += ["", "| values in `storage/cache.py`, which makes room for all of them | |", "|---|---|"]
    for room, of_room in groupby(stored(), lambda item: item[0].split("/")[0]):
        parts = [f"`{path.removeprefix(room + '/')}` {kind}" for path, kind in of_room]
        lines.append(f"| `{room}` | {', '.join(dict.fromkeys(parts))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main(PAGE, "generate_caches.py", generated()))
