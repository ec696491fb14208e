"""Builds BLOOMFILTER segments; `index.bloom_filter` describes the file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidInputError
from lance_spark.index.bloom_filter import BLOOM_FILE, BloomFilterIndex
from lance_spark.index.builders.base import positive_number
from lance_spark.index.builders.zone_rows import ZoneBuilder, Zones, nulls_before
from lance_spark.index.files import IndexFiles
from lance_spark.kernels.bloom import insert_values

_ITEMS = 8192
_PROBABILITY = 0.00057
_BLOCK_BYTES = 32
_LARGEST = 27
"""The base-2 logarithm of the bytes of the largest filter."""


class BloomFilterBuilder(ZoneBuilder):
    """BLOOMFILTER. `number_of_items` is the number of rows of a zone, `probability` that of a false hit."""

    index_type = BloomFilterIndex
    defaults: ClassVar[Mapping[str, object]] = {"number_of_items": _ITEMS, "probability": _PROBABILITY}
    file_name = BLOOM_FILE

    @classmethod
    def supports(cls, dtype: pa.DataType) -> bool:
        tests = (pt.is_integer, pt.is_float32, pt.is_float64, pt.is_date, pt.is_time, pt.is_timestamp)
        return any(test(dtype) for test in tests) or _has_bytes(dtype)

    @classmethod
    def _value(cls, name: str, value: object) -> object:
        if name == "number_of_items":
            return positive_number(cls.index_type.type_name, name, value)
        try:
            probability = float(str(value))
        except ValueError:
            probability = math.nan
        if not 0 < probability < 1:
            raise InvalidInputError(f"probability of BLOOMFILTER is {value!r}; it must be a number between 0 and 1")
        return probability

    @classmethod
    def parameters_of(cls, details: bytes, files: IndexFiles) -> dict[str, object]:
        file = files.open(BLOOM_FILE)
        items = file.positive_number("bloomfilter_item", _ITEMS)
        found = cls.checked({"probability": file.metadata.get("bloomfilter_probability", str(_PROBABILITY))})
        return {"number_of_items": items, **found}

    @classmethod
    def statistics(cls, files: IndexFiles, dtype: pa.DataType) -> dict[str, object]:
        return {"num_blocks": files.open(BLOOM_FILE).num_rows, **cls.parameters_of(b"", files)}

    @property
    def rows_per_zone(self) -> int:
        return int(str(self.parameters["number_of_items"]))

    @property
    def file_metadata(self) -> dict[str, str]:
        probability = format(Decimal(repr(self._probability)), "f")
        return {"bloomfilter_item": str(self.rows_per_zone), "bloomfilter_probability": probability}

    @property
    def _probability(self) -> float:
        return float(str(self.parameters["probability"]))

    def summarized(self, values: pa.Array, zones: Zones) -> pa.Table:
        size = filter_bytes(self.rows_per_zone, self._probability)
        filters = []
        for start, stop in zip(zones.starts.tolist(), zones.stops.tolist(), strict=True):
            words = np.zeros(size // 4, np.uint32)
            insert_values(values.slice(start, stop - start).drop_null(), words)
            filters.append(words.tobytes())
        fields = [
            pa.field("has_null", pa.bool_(), nullable=False),
            pa.field("bloom_filter_data", pa.binary(), nullable=False),
        ]
        has_null = nulls_before(values, zones.stops) > nulls_before(values, zones.starts)
        columns = [pa.array(has_null), pa.array(filters, pa.binary())]
        return zones.appended_to(pa.table(columns, schema=pa.schema(fields)), first=True)


def filter_bytes(num_items: int, probability: float) -> int:
    """The smallest size, a power of two, with at most this probability of false hits for that many distinct values.

    The probability is that of Putze, Sanders and Singler (Cache-, Hash- and Space-Efficient Bloom Filters, equation 3):
    values spread over blocks by a Poisson distribution.

    >>> filter_bytes(100, 0.01), filter_bytes(1000, 0.1), filter_bytes(8192, 0.00057), filter_bytes(50000, 0.00057)
    (256, 1024, 32768, 131072)
    """
    for power in range(5, _LARGEST):
        if _false_hits(num_items * _BLOCK_BYTES / (1 << power)) <= probability:
            return 1 << power
    return 1 << _LARGEST


def _false_hits(mean: float) -> float:
    """The probability of a false hit in a filter whose blocks have `mean` values on average."""
    if mean > 4096:
        return 1.0
    counts = np.arange(int(mean + 20 * math.sqrt(mean) + 40))
    logs = np.cumsum(np.log(np.maximum(counts, 1)))
    weights = np.exp(counts * math.log(mean) - mean - logs)
    return float(np.sum(weights * (1 - (1 - 1 / 32) ** counts) ** 8))


def _has_bytes(dtype: pa.DataType) -> bool:
    tests = (pt.is_string, pt.is_large_string, pt.is_binary, pt.is_large_binary)
    return any(test(dtype) for test in tests)
