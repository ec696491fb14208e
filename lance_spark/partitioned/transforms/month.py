"""`month`: the month of the year (1-12) of a date or timestamp."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.partitioned.transforms.calendar import Level
from lance_spark.partitioned.transforms.date_part import DatePart


@dataclass(frozen=True, slots=True)
class Month(DatePart):
    """The month of the year (1-12)."""

    name = "month"
    level = Level.MONTH
