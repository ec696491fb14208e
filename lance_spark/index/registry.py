"""The kinds of index that can be searched, by the type of their details in the table's metadata."""

from __future__ import annotations

from lance_spark.index.base import ScalarIndex
from lance_spark.index.bitmap import BitmapIndex
from lance_spark.index.bloom_filter import BloomFilterIndex
from lance_spark.index.btree import BTreeIndex
from lance_spark.index.inverted import InvertedIndex
from lance_spark.index.label_list import LabelListIndex
from lance_spark.index.ngram import NGramIndex
from lance_spark.index.rtree import RTreeIndex
from lance_spark.index.zone_map import ZoneMapIndex

INDEX_TYPES: tuple[type[ScalarIndex], ...] = (
    BTreeIndex,
    BitmapIndex,
    LabelListIndex,
    NGramIndex,
    InvertedIndex,
    RTreeIndex,
    ZoneMapIndex,
    BloomFilterIndex,
)
"""In the order in which they are asked: exact answers first, and the cheaper ones before the others."""

_BY_URL = {index_type.type_url.lower(): index_type for index_type in INDEX_TYPES}


def index_type_of(type_url: str) -> type[ScalarIndex] | None:
    """The kind of index that a type URL names, whatever its case; None for one that this release does not search."""
    return _BY_URL.get(type_url.lower())
