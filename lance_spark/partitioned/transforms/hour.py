"""`hour`: the hour of the day (0-23) of a timestamp."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.partitioned.transforms.calendar import Level
from lance_spark.partitioned.transforms.date_part import DatePart


@dataclass(frozen=True, slots=True)
class Hour(DatePart):
    """The hour of the day (0-23)."""

    name = "hour"
    level = Level.HOUR
