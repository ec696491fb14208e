"""The path from a top-level field to one of its leaves, and the Arrow types along it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.schema import logical_type as lt
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.field import Field


class NodeKind(Enum):
    """The role of a field on a path in the levels of a page."""

    LEAF = "leaf"
    STRUCT = "struct"
    LIST = "list"
    LARGE_LIST = "large list"
    FIXED_SIZE_LIST = "fixed-size list of structs"


@dataclass(frozen=True, slots=True)
class PathNode:
    """A field on the path.

    Attributes:
        field: the field.
        kind: its role in the levels.
        data_type: type of the path array from here down to the leaf; a map is a list of its entries.
        dimension: items of a fixed-size list of structs.
    """

    field: Field
    kind: NodeKind
    data_type: pa.DataType
    dimension: int = 1


@dataclass(frozen=True, slots=True)
class LeafPath:
    """The fields from a leaf (first) to its top-level field (last).

    `shape` is equal for paths of which one can take the place of another: their path arrays have equal types. None if
    each page has to be read alone.
    """

    nodes: tuple[PathNode, ...]
    shape: Hashable = field(default=None, compare=False)

    @classmethod
    def of(cls, fields: tuple[Field, ...]) -> LeafPath:
        """The path along `fields`, the top-level field first and the leaf last."""
        leaf = fields[-1]
        nodes = [PathNode(leaf, NodeKind.LEAF, to_arrow_type(leaf))]
        for parent in reversed(fields[:-1]):
            nodes.append(_parent(parent, nodes[-1]))
        return cls(tuple(nodes), _shape(fields))

    @property
    def data_type(self) -> pa.DataType:
        """Type of the path array."""
        return self.nodes[-1].data_type

    @property
    def slots_per_row(self) -> int:
        """Slots per row: pages count the items of fixed-size lists of structs as rows."""
        slots = 1
        for node in self.nodes:
            slots *= node.dimension
        return slots


def _shape(fields: tuple[Field, ...]) -> Hashable:
    top, *below = fields
    if lt.is_dictionary(fields[-1].logical_type):
        # An Arrow dictionary array has the dictionary of one page.
        return None
    if fields[-1].children:
        # Of a packed struct only the pages of its own column.
        return object()
    if not below:
        return top.logical_type, top.nullable
    if any(lt.is_fixed_size_list(field.logical_type) for field in fields[:-1]):
        # The rows of a page are not those of the column.
        return None
    inner = [(field.name, field.logical_type, field.nullable, tuple(field.metadata.items())) for field in below]
    return top.logical_type, top.nullable, *inner


def _parent(field: Field, child: PathNode) -> PathNode:
    metadata = {key.encode(): value for key, value in child.field.metadata.items()}
    child_field = pa.field(child.field.name, child.data_type, child.field.nullable, metadata=metadata or None)
    logical = field.logical_type
    if logical == "struct":
        return PathNode(field, NodeKind.STRUCT, pa.struct([child_field]))
    if logical in lt.LIST_TYPES or logical == "map":
        return PathNode(field, NodeKind.LIST, pa.list_(child_field))
    if logical in lt.LARGE_LIST_TYPES:
        return PathNode(field, NodeKind.LARGE_LIST, pa.large_list(child_field))
    if lt.is_fixed_size_list(logical):
        dimension = to_arrow_type(field).list_size
        if dimension == 0:
            raise CorruptFileError(f"field {field.name!r} of type {logical!r} has columns below it, but no items")
        return PathNode(field, NodeKind.FIXED_SIZE_LIST, pa.list_(child_field, dimension), dimension)
    raise CorruptFileError(f"field {field.name!r} of type {logical!r} has columns below it")
