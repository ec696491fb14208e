"""A segment of an INVERTED index: its analysis, and its partitions."""

from __future__ import annotations

import json
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from lance_spark._proto import index_pb2
from lance_spark.analysis.parameters import TextParameters
from lance_spark.errors import CorruptFileError, InvalidInputError
from lance_spark.index.files import IndexFile, IndexFiles
from lance_spark.index.text.items import Granularity
from lance_spark.index.text.partition import Partition

TYPE_URL = "/lance.table.InvertedIndexDetails"
MAX_VERSION = 3
_METADATA = "metadata.lance"


@dataclass(frozen=True)
class TextSegment:
    """An open segment.

    Attributes:
        parameters: how its texts were analyzed.
        partitions: independent parts, each with some of the rows.
    """

    parameters: TextParameters
    partitions: tuple[Partition, ...]

    @classmethod
    def open(cls, files: IndexFiles) -> TextSegment:
        """The segment of a folder.

        Raises:
            LanceError: a file is missing, damaged or of an unknown format, or the analysis is not supported.
        """
        file = files.open(_METADATA)
        parameters = _parameters(file)
        token_format = file.metadata.get("token_set_format", "arrow")
        numbers = _partition_numbers(file)
        return cls(parameters, tuple(Partition(files, f"part_{number}_", token_format) for number in numbers))

    @property
    def has_positions(self) -> bool:
        """Whether every partition has positions."""
        return all(part.has_positions for part in self.partitions)


def granularity_of(details: bytes) -> Granularity:
    """Granularity of the documents of a segment, from its details.

    Raises:
        CorruptFileError: the details are no message of this kind.
    """
    try:
        number = index_pb2.InvertedIndexDetails.FromString(details).document_granularity
    except DecodeError as error:
        raise CorruptFileError(f"the details of a text index cannot be read: {error}") from error
    return Granularity.LIST_ELEMENT if number else Granularity.ROW


def _parameters(file: IndexFile) -> TextParameters:
    try:
        return TextParameters.from_json(file.metadata.get("params", "{}"))
    except InvalidInputError as error:
        raise file.damaged(f"the analysis is not known: {error}") from error


def _partition_numbers(file: IndexFile) -> list[int]:
    try:
        numbers = json.loads(file.metadata.get("partitions", ""))
    except ValueError as error:
        raise file.damaged(f"the list of partitions is no JSON: {error}") from error
    is_list = isinstance(numbers, list) and all(type(number) is int and number >= 0 for number in numbers)
    if not is_list or len(set(numbers)) < len(numbers):
        raise file.damaged(f"the partitions are {numbers!r}")
    return [int(number) for number in numbers]
