"""Text searches in filters: each is replaced by the addresses of its rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyroaring

from lance_spark.analysis.analyzer import Token
from lance_spark.analysis.parameters import AS_WRITTEN, TextParameters
from lance_spark.errors import InvalidInputError
from lance_spark.expr.columns import resolve_names
from lance_spark.expr.evaluate import check_filter
from lance_spark.expr.literals import literal
from lance_spark.expr.nodes import And, Column, Expr, InArray, IsNull, Not, Or
from lance_spark.expr.sql.parse import to_expr
from lance_spark.expr.text.members import searchable, to_list, without_members
from lance_spark.expr.text.nodes import TextMatch
from lance_spark.index.planner import IndexQuery
from lance_spark.index.text.documents import query_tokens
from lance_spark.index.text.items import Granularity
from lance_spark.index.text.queries import BestQuery, BooleanQuery, TextQuery, query_with
from lance_spark.index.text.search import search
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.projection import quoted
from lance_spark.table.bases import Bases
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.system_columns import ROW_ADDRESS, filterable
from lance_spark.table.rows.row_address import OFFSET_BITS
from lance_spark.table.search.text_columns import SharedAnalyses, TextColumns, without_damage
from lance_spark.table.source import TableSource


def with_text_searches_done(
    filter: str | Expr | None,
    manifest: Manifest,
    schema: LanceSchema,
    bases: Bases,
    time_zone: str,
    shared: SharedAnalyses | None = None,
) -> Expr | None:
    """The filter with the rows of this version in place of `lance_match` and the like.

    Args:
        shared: how columns without an index are searched, for a partition.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: the filter is invalid, or a text search is part of something else than AND, OR and NOT.
    """
    if filter is None:
        return None
    tree = to_expr(filter, time_zone=time_zone)
    # A search is a call, and most filters are texts without one.
    if (isinstance(filter, str) and "(" not in filter) or not has_text_search(tree):
        return tree
    arrow_schema = to_arrow_schema(schema)
    check_filter(without_members(tree, arrow_schema), filterable(arrow_schema), time_zone=time_zone)
    if ROW_ADDRESS in schema.names():
        raise InvalidInputError(f"text search in filters is not possible in a table with a column {ROW_ADDRESS}")
    columns = TextColumns(manifest, schema, bases)
    if shared is not None:
        columns.shared = shared
    return _Searches(schema, columns).done(tree, is_positive=True)


def shared_analyses(source: TableSource) -> SharedAnalyses:
    """Settings of text analysis for the partitions of a table that have no index."""
    return SharedAnalyses(
        lambda: [TextColumns(split.manifest, source.lance_schema, split.bases) for split in source.splits()]
    )


def asked_text_indexes(
    filter: str | Expr,
    manifest: Manifest,
    schema: LanceSchema,
    bases: Bases,
    shared: SharedAnalyses | None = None,
) -> list[IndexQuery]:
    """Index queries of the text searches of a filter, for EXPLAIN. Same arguments as `with_text_searches_done`, which
    has checked them.
    """
    columns = TextColumns(manifest, schema, bases)
    if shared is not None:
        columns.shared = shared
    named = searchable(to_arrow_schema(schema))
    queries = []
    for node in to_expr(filter, time_zone="UTC").walk():
        if not isinstance(node, TextMatch):
            continue
        for column in node.columns:
            name = quoted(resolve_names(named, column.path))
            found = columns.asked(name, node.options.slop is not None, Granularity.ROW)
            if found:
                ids = pyroaring.BitMap(fragment.id for item in found for fragment in item.fragments)
                queries.append(IndexQuery(found[0].index, "INVERTED", node, len(found), ids, is_exact=True))
    return queries


def has_text_search(expr: Expr) -> bool:
    """Whether a filter has `lance_match` or the like, which is evaluated for one version of one table at a time."""
    return bool([node for node in expr.walk() if isinstance(node, TextMatch)])


def for_fragments(expr: Expr, fragment_ids: Collection[int]) -> Expr:
    """A filter that keeps the same rows of some fragments, without the addresses of rows of other fragments."""
    if isinstance(expr, (And, Or)):
        return type(expr)(tuple(for_fragments(term, fragment_ids) for term in expr.terms))
    if isinstance(expr, Not):
        return Not(for_fragments(expr.value, fragment_ids))
    if not (isinstance(expr, InArray) and expr.value == Column((ROW_ADDRESS,))):
        return expr
    fragments = expr.values.to_numpy() >> np.uint64(OFFSET_BITS)
    return InArray(expr.value, expr.values.filter(pa.array(np.isin(fragments, list(fragment_ids)))))


class _Searches:
    def __init__(self, schema: LanceSchema, columns: TextColumns) -> None:
        self._schema = to_arrow_schema(schema)
        self._searchable = searchable(self._schema)
        self._columns = columns

    def done(self, expr: Expr, *, is_positive: bool) -> Expr:
        """`expr` with the rows of its text searches.

        Args:
            is_positive: FALSE and NULL are the same, because no NOT is around it.
        """
        if isinstance(expr, TextMatch):
            return self._rows(expr, is_positive=is_positive)
        if isinstance(expr, (And, Or)):
            return type(expr)(tuple(self.done(term, is_positive=is_positive) for term in expr.terms))
        if isinstance(expr, Not):
            return Not(self.done(expr.value, is_positive=False))
        inner = next((node for node in expr.walk() if isinstance(node, TextMatch)), None)
        if inner is not None:
            raise InvalidInputError(f"{inner} can only be combined by AND, OR and NOT, not inside of {expr}")
        return expr

    def _rows(self, expr: TextMatch, *, is_positive: bool) -> Expr:
        found = without_damage([self._columns], lambda: search(self._query(expr), self._columns))
        rows = InArray(Column((ROW_ADDRESS,)), pa.array(found.addresses))
        if is_positive:
            return rows
        nulls: tuple[Expr, ...] = tuple(IsNull(Column(to_list(self._schema, column.path))) for column in expr.columns)
        return Or((rows, And((*nulls, literal(None)))))

    def _query(self, expr: TextMatch) -> TextQuery:
        names = [quoted(resolve_names(self._searchable, column.path)) for column in expr.columns]
        if expr.options.slop is not None:
            return query_with(expr.words, expr.options, names[0], Granularity.ROW)
        if expr.options.operator == "OR" or len(names) == 1:
            return _match(expr, expr.words, names)
        tokens = list(dict.fromkeys(token.text for token in self._words(expr.words, names)))
        needed = [word for word in tokens if expr.options.fuzziness != 0 or self._has_terms(word, names)]
        return (
            BooleanQuery(must=tuple(_match(expr, word, names) for word in needed))
            if needed
            else _match(expr, "", names)
        )

    def _words(self, words: str, names: Sequence[str]) -> Sequence[Token]:
        """The words, as they are written, each of which one of several columns must have."""
        kinds = {self._parameters(name).lance_tokenizer for name in names}
        if len(kinds) > 1:
            raise InvalidInputError("lance_multi_match with operator=AND searches texts or JSON documents, not both")
        return query_tokens(replace(AS_WRITTEN, lance_tokenizer=kinds.pop()), words)

    def _has_terms(self, word: str, names: Sequence[str]) -> bool:
        return any(query_tokens(self._parameters(name), word) for name in names)

    def _parameters(self, name: str) -> TextParameters:
        return self._columns(name, False, Granularity.ROW).parameters


def _match(expr: TextMatch, words: str, names: Sequence[str]) -> TextQuery:
    return BestQuery(tuple(query_with(words, expr.options, name, Granularity.ROW) for name in names))
