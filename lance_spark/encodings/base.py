"""The roles of a compressive encoding (`lance.encodings21.CompressiveEncoding`).

One wire message is one module with one frozen dataclass with `from_proto`, `to_proto`, decode and encode methods.
The three roles are types, so that an encoding in an invalid role is detected when the message is parsed:
`registry.parse(message, MiniBlockEncoding)` raises `CorruptFileError` for it.

`encode_*` is a class method that returns the codec instance which reads its output, so one generic test checks
every codec's round trip.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

import pyarrow as pa

from lance_spark.encodings.blocks import Block, Chunks, FixedWidthBlock, Int64Array, VariableWidthBlock

if TYPE_CHECKING:
    from typing_extensions import Self


class ValueForm(NamedTuple):
    """The places of single values in a chunk of a mini-block page, or in a slot of a full-zip page.

    Attributes:
        kind: one of `kernels.layouts.pick_values`.
        bits: of an item; of strings those of an offset.
        items: of a fixed-size list, at least 1; 1 of other values.
        symbol_table: of FSST, if strings are compressed by it.
        compressed_by: the encoding by which each string is compressed alone.
    """

    kind: int
    bits: int
    items: int = 1
    symbol_table: bytes | None = None
    compressed_by: CompressiveEncoding | None = None


class CompressiveEncoding(ABC):
    """One `CompressiveEncoding` message. Subclasses are frozen, slotted dataclasses named after the wire message."""

    wire_name: ClassVar[str]
    """Name of the member of the `compression` oneof, such as ``"inline_bitpacking"``."""

    @classmethod
    @abstractmethod
    def from_proto(cls, message: Any, role: type[CompressiveEncoding]) -> Self:
        """From the member message (not the enclosing oneof), for use in `role`.

        Raises:
            CorruptFileError: the message is inconsistent, or its contents do not support this role.
            UnsupportedFeatureError: it uses a feature that no release writes or that this one does not know.
        """

    @abstractmethod
    def to_proto(self) -> Any:
        """The complete `CompressiveEncoding` message, including the oneof."""

    def max_encoded_bytes(self, num_values: int) -> int | None:
        """Maximum size of an encoded buffer of `num_values` values; None if unbounded.

        A larger decompressed size means corruption.
        """
        return None

    @property
    def value_form(self) -> ValueForm | None:
        """The places of single values, for pages of which few rows are wanted; None if they cannot be computed."""
        return None


class MiniBlockEncoding(CompressiveEncoding):
    """Can be the value compression of a mini-block page."""

    @property
    @abstractmethod
    def num_buffers(self) -> int:
        """Value buffers in each chunk."""

    @abstractmethod
    def decode_mini_blocks(self, buffers: list[Chunks]) -> Block:
        """The concatenated values of all chunks.

        `buffers` has one entry per value buffer, all with equal `num_values`.

        Raises:
            CorruptFileError: the bytes are inconsistent with the encoding.
        """


class BlockEncoding(CompressiveEncoding):
    """Can encode a standalone block: levels, dictionaries."""

    @abstractmethod
    def decode_blocks(self, chunks: Chunks) -> Block:
        """The concatenated values of all blocks; every block is independent.

        Raises:
            CorruptFileError: the bytes are inconsistent with the encoding.
        """

    @property
    def level_bits(self) -> int | None:
        """Width of levels for `kernels.layouts.pick_levels`, or what stands for it; None if single levels cannot be
        found in these blocks.
        """
        return None


class PerValueEncoding(CompressiveEncoding):
    """Can be the value compression of a full-zip page, where every value is compressed separately."""

    @abstractmethod
    def decode_values(self, block: FixedWidthBlock | VariableWidthBlock) -> Block:
        """Decodes the encoded values of the page (fixed width: `bits_per_value` of the layout)."""


EncodingT = TypeVar("EncodingT", bound=CompressiveEncoding, covariant=True)


@dataclass(frozen=True, slots=True)
class EncodedMiniBlocks(Generic[EncodingT]):
    """Values encoded into mini-block chunks.

    `buffers[b]` has value buffer b of all chunks; its `num_values` (equal in all buffers) are powers of two except for
    the last chunk. The slices of one buffer need not be adjacent.
    """

    encoding: EncodingT
    buffers: list[Chunks]

    @property
    def num_values(self) -> Int64Array:
        return self.buffers[0].num_values


@dataclass(frozen=True, slots=True)
class EncodedBlocks(Generic[EncodingT]):
    """Independent blocks with the same encoding: the levels of the chunks of a page."""

    encoding: EncodingT
    chunks: Chunks


@dataclass(frozen=True, slots=True)
class EncodedBlock(Generic[EncodingT]):
    """A standalone encoded block: one buffer."""

    encoding: EncodingT
    data: pa.Buffer
    num_values: int


@dataclass(frozen=True, slots=True)
class EncodedValues(Generic[EncodingT]):
    """Separately encoded values for a full-zip page."""

    encoding: EncodingT
    block: FixedWidthBlock | VariableWidthBlock
