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
from lance_spark.index.segments import warn_unused
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.index_candidates import Candidates, index_plan, segments_of
from lance_spark.table.reading.scan import Scan

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
    num_rows = sum(fragment.physical_rows or 0 for manifest, _ in parts for fragment in manifest.fragments)
    terms: list[Expr] = []
    for extreme in dict.fromkeys(wanted):
        term = _term(parts, extreme)
        if term is None or not _keeps_a_row(parts, term, num_rows * _SELECTIVE_SHARE):
            return None
        terms.append(term)
    if not terms:
        return None
    found = terms[0] if len(terms) == 1 else Or(tuple(terms))
    return found if _num_candidates(parts, found) <= num_rows * _SELECTIVE_SHARE else None


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
        for segment in segments_of(manifest, scan.bases, {field.id}):
            if segment.json_steps is not None:
                continue
            try:
                bounds = segment.bounds(to_arrow_type(field))
            except LanceError as error:
                warn_unused(segment.name, segment.uuid, error)
                continue
            if bounds is not None:
                yield bounds[extreme.is_greatest]


def _keeps_a_row(parts: Sequence[tuple[Manifest, Scan]], term: Expr, most: float) -> bool:
    """Whether some row that an index knows satisfies a condition; False where more than `most` rows may do so."""
    narrowed = [(manifest, replace(scan, filter=term)) for manifest, scan in parts]
    if _num_candidates(parts, term) > most:
        return False
    for manifest, scan in narrowed:
        plan = index_plan(scan, manifest)
        candidates = Candidates(scan, plan)
        for fragment in manifest.fragments:
            if fragment.id in plan.matches and any(batch.num_rows for batch in candidates.read_fragment(fragment)):
                return True
    return False


def _num_candidates(parts: Sequence[tuple[Manifest, Scan]], condition: Expr) -> int:
    """About how many rows are read for a condition."""
    total = 0
    for manifest, scan in parts:
        plan = index_plan(replace(scan, filter=condition), manifest)
        for fragment in manifest.fragments:
            found = plan.matches.get(fragment.id)
            total += len(found.offsets) if found is not None else fragment.physical_rows or 0
    return total
