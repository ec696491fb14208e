"""Features of the connector and the minor version of Spark that each needs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from lance_spark.spark.compat import SPARK
from tests.support.spark_versions import minor_of


@dataclass(frozen=True)
class Feature:
    """A feature of the connector.

    Attributes:
        title: what a user would call it.
        since: the minor version of Spark, such as "4.2", from which it is there.
        instead: the message or feature of older versions in its place; empty if all versions have it.
    """

    title: str
    since: str = "4.0"
    instead: str = ""

    def is_in(self, minor: tuple[int, int]) -> bool:
        """Whether a minor version of Spark has it."""
        return minor >= minor_of(self.since)


def feature(
    title: str, *, since: str = "4.0", refused: str = "", instead: str = ""
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Marks a test as that of a feature. With a Spark before `since` its statements must fail with an error whose text
    matches the regular expression `refused`.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        described = Feature(title, since, instead)

        @functools.wraps(test)
        def run(*arguments: Any, **named: Any) -> None:
            if described.is_in(SPARK):
                test(*arguments, **named)
                return
            with pytest.raises(Exception, match=refused):
                test(*arguments, **named)

        run.feature = described  # type: ignore[attr-defined]
        return run

    return decorate
