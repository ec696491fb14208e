"""Builds INVERTED segments; `index.text` describes the files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from lance_spark.analysis.analyzer import is_text
from lance_spark.analysis.parameters import JSON, TEXT
from lance_spark.errors import InvalidInputError
from lance_spark.index.builders.base import IndexBuilder, IndexedRows, OldSegment, Parameters
from lance_spark.index.builders.output import SegmentOutput
from lance_spark.index.files import IndexFiles
from lance_spark.index.inverted import InvertedIndex
from lance_spark.index.text.build import TextIndexParameters, write_segment_files
from lance_spark.index.text.items import levels_of
from lance_spark.index.text.merge import old_documents
from lance_spark.index.text.segment import TextSegment, granularity_of

_DOCUMENTS = "lance_tokenizer"
"""The parameter that follows from the type of the column."""


class TextBuilder(IndexBuilder):
    """INVERTED. The parameters are those of `TextIndexParameters`."""

    index_type = InvertedIndex
    binary_is_json = True
    reaches_into_lists = True

    @classmethod
    def made(cls, dtype: pa.DataType, parameters: Parameters) -> IndexBuilder:
        is_code = TextIndexParameters.of(parameters).text.base_tokenizer == "code"
        if cls.keeps_lists(parameters):
            levels_of(dtype)
        own = {name: value for name, value in parameters.items() if name != _DOCUMENTS}
        return (_CodeBuilder if is_code else TextBuilder)(dtype, own)

    @classmethod
    def supports(cls, dtype: pa.DataType) -> bool:
        return is_text(dtype) or bool(pa.types.is_large_binary(dtype))

    @classmethod
    def keeps_lists(cls, parameters: Parameters) -> bool:
        return TextIndexParameters.of(parameters).has_items

    @classmethod
    def version(cls, *, stable_row_ids: bool) -> int:
        return 2

    @classmethod
    def checked(cls, parameters: Parameters) -> dict[str, object]:
        if _DOCUMENTS in parameters:
            raise InvalidInputError(f"unknown text option {_DOCUMENTS!r}; the kind of documents is that of the column")
        TextIndexParameters.of(parameters)
        return dict(parameters)

    @classmethod
    def parameters_of(cls, details: bytes, files: IndexFiles) -> dict[str, object]:
        segment = TextSegment.open(files)
        return {
            **segment.parameters.to_json_fields(),
            "with_position": segment.has_positions,
            "document_granularity": granularity_of(details).value,
        }

    @classmethod
    def described_parameters(cls, details: bytes) -> dict[str, object]:
        return {"document_granularity": granularity_of(details).value}

    @classmethod
    def name_suffix(cls, parameters: Parameters) -> str:
        return "_list_element_idx" if TextIndexParameters.of(parameters).has_items else "_idx"

    @classmethod
    def statistics(cls, files: IndexFiles, dtype: pa.DataType) -> dict[str, object]:
        partitions = TextSegment.open(files).partitions
        return {"num_partitions": len(partitions), "num_docs": sum(partition.num_docs for partition in partitions)}

    def details(self) -> bytes:
        return self._text.details()

    @property
    def _text(self) -> TextIndexParameters:
        is_json = pa.types.is_large_binary(self.dtype)
        return TextIndexParameters.of({**self.parameters, _DOCUMENTS: JSON if is_json else TEXT})

    def train(self, rows: IndexedRows, output: SegmentOutput) -> None:
        self.train_batches(iter([rows]), output)

    def train_batches(self, batches: Iterator[IndexedRows], output: SegmentOutput) -> None:
        self.merge_batches([], batches, output)

    def merge(self, old: Sequence[OldSegment], rows: IndexedRows, output: SegmentOutput) -> None:
        self.merge_batches(old, iter([rows]), output)

    def merge_batches(self, old: Sequence[OldSegment], batches: Iterator[IndexedRows], output: SegmentOutput) -> None:
        parameters = self._text
        levels = levels_of(self.dtype) if parameters.has_items else 0
        # A segment over no fragment only records what is to be indexed, and can have no files.
        filled = [segment for segment in old if segment.fragment_rows]
        documents = (
            found for segment in filled for found in old_documents(segment.files, segment.mapping, parameters, levels)
        )
        write_segment_files(documents, ((rows.values, rows.ids) for rows in batches), parameters, levels, output)


class _CodeBuilder(TextBuilder):
    @classmethod
    def version(cls, *, stable_row_ids: bool) -> int:
        return 3


TEXT_BUILDERS: Mapping[str, type[IndexBuilder]] = {"INVERTED": TextBuilder, "FTS": TextBuilder}
"""The builder by the names of the kind."""
