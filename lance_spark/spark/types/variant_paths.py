"""Variants with only the members at the paths that a query uses (docs/design/037-types-and-constraints.md).

A path is a tuple of steps, as Spark's planner names them: `.key` or `[position]`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.errors import InvalidInputError
from lance_spark.expr.json_path.documents import PathTree, json_text
from lance_spark.kernels.documents.variant import NEW_KEYS, measure_members, write_members
from lance_spark.kernels.jit import address_of
from lance_spark.spark.types.json_columns import to_variants
from lance_spark.spark.types.variants import filled, is_exchanged_variant, is_variant_field

Paths = Sequence[Sequence[str]]
Int64Array = npt.NDArray[np.int64]

_PATHS_KEY = "lance-spark:variant-paths"
_POSITION = re.compile(r"\[([0-9]{1,9})\]")
_MAX_NODES = 64
"""Members of more paths are not worth the search for them."""


def with_paths(target: pa.Schema, paths: Mapping[str, Paths]) -> pa.Schema:
    """`target`, the columns that a scan returns, with the paths that are wanted of some variants.

    Raises:
        InvalidInputError: one of `paths` is no path into a column of variants.
    """
    fields = []
    for field in target:
        wanted = paths.get(field.name)
        if wanted is not None:
            if not is_exchanged_variant(field.type):
                raise InvalidInputError(f"column {field.name!r} has no variants")
            path_tree(wanted)
            field = field.with_metadata({_PATHS_KEY: json.dumps([list(path) for path in wanted])})
        fields.append(field)
    return pa.schema(fields, metadata=target.metadata)


def with_members(batches: Iterable[pa.RecordBatch], target: pa.Schema) -> Iterator[pa.RecordBatch]:
    """`batches` of a table with smaller variants where `target` wants some paths of them only.

    Raises:
        InvalidInputError: a JSON column holds something else.
    """
    texts = {field.name: (field.metadata or {}).get(_PATHS_KEY.encode()) for field in target}
    trees = {name: path_tree(json.loads(text)) for name, text in texts.items() if text is not None}
    yield from (_narrowed(batch, trees, target) for batch in batches) if trees else batches


def _narrowed(batch: pa.RecordBatch, trees: Mapping[str, PathTree], target: pa.Schema) -> pa.RecordBatch:
    for name, tree in trees.items():
        place = batch.schema.get_field_index(name)
        field, column = batch.schema.field(place), batch.column(place)
        if is_variant_field(field):
            narrowed = narrowed_variants(column, tree)
        else:
            texts = [None if item is None else json_text(item, tree) for item in column.to_pylist()]
            narrowed = to_variants(texts, target.field(name).type)
        batch = batch.set_column(place, field.with_type(narrowed.type), narrowed)
    return batch


def path_tree(paths: Paths) -> PathTree:
    """The paths as a tree of their steps; below the end of one path there is nothing.

    >>> path_tree([[".a", ".b"], [".a", "[1]"], [".c"], [".c", ".d"]])
    {'c': {}, 'a': {'b': {}, 1: {}}}

    Raises:
        InvalidInputError: a path has no steps, or a step is neither `.key` nor `[position]`.
    """
    tree: PathTree = {}
    for path in sorted((tuple(map(_step, path)) for path in paths), key=len):
        if not path:
            raise InvalidInputError("a path into a variant has no steps")
        _add(tree, path)
    return tree


def _add(tree: PathTree, path: tuple[str | int, ...]) -> None:
    for depth, step in enumerate(path):
        known = step in tree
        tree = tree.setdefault(step, {})
        if known and not tree and depth + 1 < len(path):
            return  # A shorter path ends here.


def _step(text: str) -> str | int:
    if text.startswith("."):
        return text[1:]
    found = _POSITION.fullmatch(text)
    if found is None:
        raise InvalidInputError(f"{text!r} is no step of a path into a variant")
    return int(found[1])


@dataclass(frozen=True)
class _Nodes:
    """A tree of paths as the kernels take it."""

    tree: PathTree

    @cached_property
    def rows(self) -> list[tuple[int, str | int]]:
        """The parent and the step of each node, depth first; children in the order of `kernels.documents.variant`."""
        found: list[tuple[int, str | int]] = [(-1, "")]

        def visit(tree: PathTree, parent: int) -> None:
            for step in sorted(tree, key=_order):
                found.append((parent, step))
                visit(tree[step], len(found) - 1)

        visit(self.tree, 0)
        return found

    @cached_property
    def keys(self) -> list[bytes]:
        """The keys of all nodes, each once."""
        return sorted({step.encode() for _, step in self.rows[1:] if isinstance(step, str)})

    def numbers(self) -> Int64Array:
        """Five numbers of each node."""
        starts = dict(zip(self.keys, np.cumsum([0, *map(len, self.keys)]).tolist(), strict=False))
        numbers = [(-1, 0, 0, 0, 0)]
        for parent, step in self.rows[1:]:
            if isinstance(step, int):
                numbers.append((parent, 0, step, 0, 0))
            else:
                key = step.encode()
                numbers.append((parent, 1, starts[key], len(key), self.keys.index(key)))
        return np.array(numbers, np.int64)

    def metadata(self) -> bytes:
        """A dictionary of variants with the keys."""
        offsets = np.cumsum([0, *map(len, self.keys)])
        width = max(1, (max(int(offsets[-1]), len(self.keys)).bit_length() + 7) // 8)
        numbers = (len(self.keys), *offsets.tolist())
        texts = [number.to_bytes(width, "little") for number in numbers]
        return b"".join([bytes([1 | (width - 1) << 6]), *texts, *self.keys])


def _order(step: str | int) -> tuple[int, bytes, int]:
    return (0, step.encode("utf-16-be"), 0) if isinstance(step, str) else (1, b"", step)


def narrowed_variants(variants: pa.StructArray, tree: PathTree) -> pa.StructArray:
    """Variants with the members at the paths of `tree`, and maybe others; the same values at these paths.

    Values that break the encoding stay as they are.
    """
    nodes = _Nodes(tree)
    if len(nodes.rows) > _MAX_NODES or not len(variants):
        return variants
    values, value_at = _buffers(variants.field("value"))
    metadata, metadata_at = _buffers(variants.field("metadata"))
    new_metadata = nodes.metadata()
    numbers, keys = nodes.numbers(), np.frombuffer(b"".join(nodes.keys) or b"\0", np.uint8)
    scratch = np.empty(8 * len(numbers), np.int64)
    count = len(variants)
    sizes, kinds = np.empty(count, np.int64), np.empty(count, np.int64)
    given = [address_of(item) for item in (values, value_at, metadata, metadata_at)]
    tail = [address_of(numbers), len(numbers), address_of(keys), address_of(scratch)]
    measure_members(*given, count, *tail, address_of(sizes), address_of(kinds))
    new_at = _offsets(sizes)
    new_metadata_at = _offsets(np.where(kinds == NEW_KEYS, len(new_metadata), np.diff(metadata_at)))
    new_values, all_metadata = np.empty(int(new_at[-1]), np.uint8), np.empty(int(new_metadata_at[-1]), np.uint8)
    dictionary = np.frombuffer(new_metadata, np.uint8)
    written = [address_of(item) for item in (new_values, new_at, all_metadata, new_metadata_at)]
    write_members(*given, count, *tail, address_of(kinds), address_of(dictionary), len(new_metadata), *written)
    parts = {"value": _binaries(new_at, new_values), "metadata": _binaries(new_metadata_at, all_metadata)}
    fields = [child.with_type(pa.large_binary()) for child in variants.type]
    mask = variants.is_null() if variants.null_count else None
    return pa.StructArray.from_arrays([parts[field.name] for field in fields], fields=fields, mask=mask)


def _buffers(array: pa.Array) -> tuple[npt.NDArray[np.uint8], Int64Array]:
    """The bytes and the offsets of binary values; null ones are empty."""
    array = filled(array).cast(pa.large_binary())
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    data = array.buffers()[2]
    return np.frombuffer(data if data is not None and data.size else b"\0", np.uint8), offsets


def _offsets(sizes: Int64Array) -> Int64Array:
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def _binaries(offsets: Int64Array, data: npt.NDArray[np.uint8]) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
