"""What earlier requests of a scan have accepted, derived from the arguments of its plan."""

from __future__ import annotations

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import Expr, conjunction
from lance_spark.spark.connector.scan.aggregates import Aggregation
from lance_spark.spark.connector.scan.requests import ScanRequest
from lance_spark.spark.connector.scan.top_n import sort_keys
from lance_spark.spark.predicates import to_filter
from lance_spark.table.reading.first_rows import SortKey


def accepted_filter(request: ScanRequest, names: pa.Schema) -> Expr | None:
    """The scan's own filter, from its options and predicates; None if it has none.

    Args:
        names: what a filter may name.

    Raises:
        InvalidInputError: a predicate has no exact counterpart, so `scan.push` cannot have accepted it.
    """
    option = request.read_options().filter
    terms = [] if option is None else [option]
    for predicate in request.predicates:
        term = to_filter(predicate, names)
        if term is None:
            raise _not_accepted(request, f"apply the filter {predicate}", "scan.push")
        terms.append(term)
    return conjunction(tuple(terms))


def possible_aggregation(request: ScanRequest, names: pa.Schema, num_rows: int | None) -> Aggregation | None:
    """How tasks aggregate as asked; None if nothing is asked, or if they cannot.

    Args:
        names: the columns of the table.
        num_rows: how many rows there are at most, None if that is not known.
    """
    if not request.aggregates and not request.group_by:
        return None
    return Aggregation.of(request.group_by, request.aggregates, names, num_rows)


def check_aggregation(request: ScanRequest, found: Aggregation | None) -> None:
    """Passes if tasks can aggregate as asked, or if nothing is asked.

    Raises:
        InvalidInputError: they cannot, so `scan.aggregate` cannot have accepted it.
    """
    if found is None and (request.aggregates or request.group_by):
        raise _not_accepted(request, "aggregate as asked", "scan.aggregate")


def accepted_order(request: ScanRequest, columns: pa.Schema) -> tuple[SortKey, ...]:
    """The keys of the first rows; none if all rows are asked for.

    Raises:
        InvalidInputError: tasks cannot order rows so, and `scan.top_n` cannot have accepted it.
    """
    if request.top_n is None:
        return ()
    keys = sort_keys(request.top_n.orders, request.top_n.limit, columns)
    if keys is None:
        raise _not_accepted(request, "order rows as asked", "scan.top_n")
    return keys


def _not_accepted(request: ScanRequest, what: str, operation: str) -> InvalidInputError:
    return InvalidInputError(
        f"the scan of {request.handle.display_name} cannot {what}; a plan may ask only for what "
        f"{operation} has accepted"
    )
