"""A filter that keeps the rows with the least and the greatest values of columns, from what indexes know of them.

An index names bounds of its values, but rows with them may have been deleted, and other rows may not be indexed. So a
bound is only a guess: if some live row is not above it, then the rows that are not above it have the least value of the
whole table. The filter is answered like any other, so uncovered fragments are scanned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError, LanceError
from lance_spark.expr.literals import literal
from lance_spark.expr.nodes import Column, Comparison, ComparisonOp, Expr, Or
from lance_spark.index.planner import Plan
from lance_spark.index.segments import warn_unused
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.index_candidates import Candidates
from lance_spark.table.reading.index_plan import index_plan, segments_of
from lance_spark.table.reading.scan import Scan

_MAX_PARTS = 64
"""The indexes of more tables are not asked: each is asked for each extreme, while the query is planned."""

_SELECTIVE_SHARE = 1 / 4
"""If more rows than that have to be read, the bounds are of no use."""


@dataclass(frozen=True, slots=True)
class Extreme:
    """The least or the greatest value of a column at the top of the table."""

    column: str
    is_greatest: bool


def extremes_filter(parts: Sequence[tuple[Manifest, Scan]], wanted: Sequence[Extreme]) -> Expr | None:
    """A filter that keeps at least one row with each extreme, whatever else it keeps; None if indexes do not help.

    Args:
        parts: versions of tables with their scans, which have no filter. The extremes are those of all parts together.
    """
    if len(parts) > _MAX_PARTS:
        return None
    most = _SELECTIVE_SHARE * sum(item.physical_rows or 0 for manifest, _ in parts for item in manifest.fragments)
    terms: list[Expr] = []
    for extreme in dict.fromkeys(wanted):
        term = _term(parts, extreme)
        if term is None or not _keeps_a_row(_narrowed(parts, term), most):
            return None
        terms.append(term)
    if not terms:
        return None
    found = terms[0] if len(terms) == 1 else Or(tuple(terms))
    return found if _num_candidates(_narrowed(parts, found)) <= most else None


def _term(parts: Sequence[tuple[Manifest, Scan]], extreme: Extreme) -> Expr | None:
    known = pa.chunked_array([pa.array([bound]) for bound in _bounds(parts, extreme)] or [pa.nulls(1)]).combine_chunks()
    bound = (pc.max if extreme.is_greatest else pc.min)(known)
    if not bound.is_valid:
        return None
    try:
        value = literal(bound)
    except InvalidInputError:
        return None
    op = ComparisonOp.GE if extreme.is_greatest else ComparisonOp.LE
    return Comparison(op, Column((extreme.column,)), value)


def _bounds(parts: Sequence[tuple[Manifest, Scan]], extreme: Extreme) -> Iterator[pa.Scalar]:
    for manifest, scan in parts:
        fields = {field.name: field for field in scan.schema.fields}
        field = fields[extreme.column]
        for segment in segments_of(manifest, scan.bases, field.id):
            if segment.json_steps is not None:
                continue
            try:
                bounds = segment.bounds(to_arrow_type(field))
            except LanceError as error:
                warn_unused(segment.name, segment.uuid, error)
                continue
            if bounds is not None:
                yield bounds[extreme.is_greatest]


@dataclass(frozen=True, slots=True)
class _Narrowed:
    """A part with a condition: its scan, and what indexes say of it."""

    manifest: Manifest
    scan: Scan
    plan: Plan


def _narrowed(parts: Sequence[tuple[Manifest, Scan]], condition: Expr) -> list[_Narrowed]:
    scans = [(manifest, replace(scan, filter=condition)) for manifest, scan in parts]
    return [_Narrowed(manifest, scan, index_plan(scan, manifest)) for manifest, scan in scans]


def _keeps_a_row(parts: Sequence[_Narrowed], most: float) -> bool:
    """Whether a row that an index knows satisfies the condition; False where more than `most` rows may do so."""
    if _num_candidates(parts) > most:
        return False
    for part in parts:
        candidates = Candidates(part.scan, part.plan, checks_exact=True)
        for fragment in part.manifest.fragments:
            if fragment.id in part.plan.matches and any(batch.num_rows for batch in candidates.read([fragment])):
                return True
    return False


def _num_candidates(parts: Sequence[_Narrowed]) -> int:
    """About how many rows are read for the condition."""
    total = 0
    for part in parts:
        for fragment in part.manifest.fragments:
            found = part.plan.matches.get(fragment.id)
            total += len(found.offsets) if found is not None else fragment.physical_rows or 0
    return total
