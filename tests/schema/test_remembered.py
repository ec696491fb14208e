"""Results are found again by identity, and no other object can be taken for one that is gone."""

from __future__ import annotations

from lance_spark.schema.field import LanceSchema
from lance_spark.schema.remembered import Remembered


def test_same_objects_have_the_same_result() -> None:
    remembered: Remembered[object] = Remembered()
    one, other = LanceSchema(()), LanceSchema(())
    first = remembered((one,), "a", object)
    assert remembered((one,), "a", object) is first
    assert remembered((one,), "b", object) is not first
    assert remembered((other,), "a", object) is not first


def test_no_more_than_the_last_results_are_kept() -> None:
    remembered: Remembered[object] = Remembered(most=3)
    schema = LanceSchema(())
    first = remembered((schema,), 0, object)
    for number in range(1, 4):
        remembered((schema,), number, object)
    assert remembered((schema,), 0, object) is not first


def test_identities_are_not_used_again() -> None:
    remembered: Remembered[int] = Remembered(most=1000)
    # The objects are alive as long as their results are kept, so each has an identity of its own.
    assert [remembered((LanceSchema(()),), None, lambda number=number: number) for number in range(500)] == list(
        range(500)
    )


def test_results_that_have_grown_too_large_are_given_up() -> None:
    remembered: Remembered[list[int]] = Remembered(most_bytes=100, size_of=len)
    schema = LanceSchema(())
    first, second = (remembered((schema,), number, list) for number in range(2))
    first.extend(range(60))
    second.extend(range(40))
    remembered((schema,), 2, list)
    assert remembered((schema,), 0, list) is first
    second.append(1)
    remembered((schema,), 3, list)
    assert remembered((schema,), 0, list) is not first
