"""`year`: the calendar year (2025) of a date or timestamp."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.partitioned.transforms.calendar import Level
from lance_spark.partitioned.transforms.date_part import DatePart


@dataclass(frozen=True, slots=True)
class Year(DatePart):
    """The calendar year (2025)."""

    name = "year"
    level = Level.YEAR
