"""`day`: the day of the month (1-31) of a date or timestamp."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.partitioned.transforms.calendar import Level
from lance_spark.partitioned.transforms.date_part import DatePart


@dataclass(frozen=True, slots=True)
class Day(DatePart):
    """The day of the month (1-31)."""

    name = "day"
    level = Level.DAY
