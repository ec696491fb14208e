"""The kinds of index that can be built, by name."""

from __future__ import annotations

from lance_spark.errors import InvalidInputError
from lance_spark.index.builders.base import IndexBuilder
from lance_spark.index.builders.bitmap import BitmapBuilder
from lance_spark.index.builders.bloom_filter import BloomFilterBuilder
from lance_spark.index.builders.btree import BTreeBuilder
from lance_spark.index.builders.json import JsonBuilder
from lance_spark.index.builders.label_list import LabelListBuilder
from lance_spark.index.builders.ngram import NGramBuilder
from lance_spark.index.builders.rtree import RTreeBuilder
from lance_spark.index.builders.text import TEXT_BUILDERS, TextBuilder
from lance_spark.index.builders.vector import VECTOR_BUILDERS, VectorBuilder
from lance_spark.index.builders.zone_map import ZoneMapBuilder

SCALAR_BUILDERS: tuple[type[IndexBuilder], ...] = (
    BTreeBuilder,
    BitmapBuilder,
    LabelListBuilder,
    NGramBuilder,
    ZoneMapBuilder,
    BloomFilterBuilder,
    JsonBuilder,
    RTreeBuilder,
)

_BY_NAME: dict[str, type[IndexBuilder]] = {
    **{builder.index_type.type_name: builder for builder in SCALAR_BUILDERS},
    **TEXT_BUILDERS,
    **VECTOR_BUILDERS,
}
_BY_URL: dict[str, type[IndexBuilder]] = {
    **{builder.index_type.type_url.lower(): builder for builder in SCALAR_BUILDERS},
    TextBuilder.index_type.type_url.lower(): TextBuilder,
    VectorBuilder.index_type.type_url.lower(): VectorBuilder,
}


def builder_named(kind: str) -> type[IndexBuilder]:
    """The builder of a kind, whatever the case of its name.

    Raises:
        InvalidInputError: no such kind.
    """
    found = _BY_NAME.get(kind.upper())
    if found is None:
        raise InvalidInputError(f"there is no kind of index {kind!r}; choose one of {', '.join(_BY_NAME)}")
    return found


def builder_of(type_url: str) -> type[IndexBuilder] | None:
    """The builder of the kind that a type URL names; None for one that this release does not build.

    `IndexBuilder.of_segment` of the result is the builder of a segment.
    """
    return _BY_URL.get(type_url.lower())
