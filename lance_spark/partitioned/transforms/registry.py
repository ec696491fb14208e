"""The transforms of the specification by their `type`."""

from __future__ import annotations

from collections.abc import Mapping

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.partitioned.transforms.base import Transform
from lance_spark.partitioned.transforms.bucket import Bucket, MultiBucket
from lance_spark.partitioned.transforms.date_part import Day, Hour, Month, Year
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.partitioned.transforms.truncate import Truncate

TRANSFORMS: dict[str, type[Transform]] = {
    transform.name: transform for transform in (Identity, Year, Month, Day, Hour, Bucket, MultiBucket, Truncate)
}
"""All transforms by name."""


def transform_from_json(members: object) -> Transform:
    """The transform of a JSON object.

    Raises:
        InvalidInputError: it is not a JSON object with a `type`, or a parameter is missing or out of range.
        UnsupportedFeatureError: an unknown transform.
    """
    if not isinstance(members, Mapping) or not isinstance(members.get("type"), str):
        raise InvalidInputError(f"a transform is a JSON object with a type, got {members!r}")
    name = members["type"]
    if name not in TRANSFORMS:
        raise UnsupportedFeatureError(
            f"partition transform {name!r} is not known to this release; known are {', '.join(TRANSFORMS)}",
            feature=f"partition transform {name}",
        )
    return TRANSFORMS[name].from_json(members)
