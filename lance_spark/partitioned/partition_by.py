"""Partition fields from the transforms that users write: `country`, `bucket(16, id)`, `days(ts)`.

`years`, `months`, `days` and `hours` are the levels of a hierarchy: `days(ts)` is year, month and day.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.base import Transform
from lance_spark.partitioned.transforms.bucket import MAX_BUCKETS, Bucket, MultiBucket
from lance_spark.partitioned.transforms.date_part import Day, Hour, Month, Year
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.partitioned.transforms.truncate import Truncate
from lance_spark.schema.projection import parse_path

_PARTS: dict[str, Transform] = {"year": Year(), "month": Month(), "day": Day(), "hour": Hour()}
_NUMBERED: dict[str, Callable[[int], Transform]] = {"bucket": Bucket, "truncate": Truncate, "multi_bucket": MultiBucket}
_PLAIN: dict[str, Transform] = {"identity": Identity(), **_PARTS}
EXPRESSION = "expression"

_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)
_NAME = r"(?:`(?:[^`]|``)+`|\w+)"
_ARGUMENT = re.compile(
    rf"""\s*(?:(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")|(?P<number>[0-9]+)(?![\w.`])
    |(?P<path>{_NAME}(?:\s*\.\s*{_NAME})*))\s*(?P<end>,|\Z)""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(.)|''|\"\"", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TransformCall:
    """A transform as a user writes it.

    Attributes:
        name: in lower case.
        arguments: in their order: a column as the names of its path, a number as int, a text as str.
    """

    name: str
    arguments: tuple[tuple[str, ...] | int | str, ...]

    @property
    def columns(self) -> tuple[tuple[str, ...], ...]:
        return tuple(argument for argument in self.arguments if isinstance(argument, tuple))


def partition_fields(calls: Sequence[TransformCall]) -> list[PartitionBy]:
    """The fields of a spec; a level shared by two hierarchies is one field.

    Raises:
        InvalidInputError: invalid arguments of a transform.
        UnsupportedFeatureError: not a transform of the partitioning specification.

    >>> [field.field_id for field in partition_fields([parse_transform("days(ts)")])]
    ['ts_year', 'ts_month', 'ts_day']
    """
    found: list[PartitionBy] = []
    for call in calls:
        if call.name == EXPRESSION:
            found.append(_expression(call, found))
            continue
        columns = call.columns
        for transform, suffix in _levels(call.name, columns, _numbers(call)):
            names = ["_".join(column) for column in columns]
            field_id = re.sub(r"\.", "_", "_".join([*names, *suffix]))
            if any(field.sources == columns and field.transform == transform for field in found):
                continue
            found.append(PartitionBy(_free(field_id, found), columns, transform))
    return found


def parse_transform(text: str) -> TransformCall:
    """Parses a transform as in PARTITIONED BY: `bucket(16, id)`, `country`.

    Raises:
        InvalidInputError: it is not a transform.

    >>> parse_transform("bucket(16, `a b`.c)").arguments
    (16, ('a b', 'c'))
    """
    call = _CALL.fullmatch(text)
    if call is None:
        return TransformCall(Identity.name, (tuple(parse_path(text.strip())),))
    arguments: list[tuple[str, ...] | int | str] = []
    position, has_more = 0, bool(call[2].strip())
    while has_more:
        match = _ARGUMENT.match(call[2], position)
        if match is None:
            raise InvalidInputError(f"{text!r} is no partition transform; write one such as bucket(16, id) or days(ts)")
        arguments.append(_argument(match))
        position, has_more = match.end(), match["end"] == ","
    return TransformCall(call[1].lower(), tuple(arguments))


def _argument(match: re.Match[str]) -> tuple[str, ...] | int | str:
    if match["number"] is not None:
        return int(match["number"])
    if match["text"] is not None:
        return _ESCAPED.sub(lambda found: found[1] or found[0][0], match["text"][1:-1])
    names = re.findall(_NAME, match["path"])
    return tuple(name.replace("``", "\0").replace("`", "").replace("\0", "`") for name in names)


def _expression(call: TransformCall, found: Sequence[PartitionBy]) -> PartitionBy:
    """`expression('col0 % 10', id)`: the expression, then its columns."""
    first, *rest = call.arguments or (0,)
    columns = call.columns
    if not isinstance(first, str) or not columns or len(columns) < len(rest):
        raise InvalidInputError(
            "expression takes a text in SQL on col0, col1, ... and these columns, as in expression('col0 % 10', id)"
        )
    field_id = "_".join(["_".join(column) for column in columns] + [EXPRESSION]).replace(".", "_")
    return PartitionBy(_free(field_id, found), columns, expression=first)


def _numbers(call: TransformCall) -> tuple[int, ...]:
    others = [argument for argument in call.arguments if not isinstance(argument, tuple)]
    numbers = tuple(argument for argument in others if isinstance(argument, int) and 0 <= argument < 10**10)
    if len(numbers) < len(others):
        raise InvalidInputError(f"{call.name} takes columns, and a number that is not negative")
    return numbers


def _levels(
    name: str, columns: Sequence[tuple[str, ...]], numbers: Sequence[int]
) -> list[tuple[Transform, tuple[str, ...]]]:
    """The levels of a transform, each with the suffix of its field's name."""
    if name in _NUMBERED:
        several = name == MultiBucket.name
        if len(numbers) != 1 or not 1 <= numbers[0] <= MAX_BUCKETS or not columns or (len(columns) > 1 and not several):
            hint = "; multi_bucket takes several columns" if len(columns) > 1 else ""
            raise InvalidInputError(
                f"{name} takes a number from 1 on and {'columns' if several else 'one column'}, "
                f"as in {name}(16, id){hint}"
            )
        return [(_NUMBERED[name](numbers[0]), (name, str(numbers[0])))]
    parts = list(_PARTS.items())
    depths = {f"{part}s": depth for depth, part in enumerate(_PARTS, 1)}
    if name not in _PLAIN and name not in depths:
        known = ", ".join([*_PLAIN, *depths, *_NUMBERED, EXPRESSION])
        raise UnsupportedFeatureError(
            f"no partition transform {name!r}; known are {known}", feature=f"PARTITIONED BY {name}"
        )
    if len(columns) != 1 or numbers:
        raise InvalidInputError(f"{name} takes one column")
    if name in depths:
        return [(transform, (part,)) for part, transform in parts[: depths[name]]]
    return [(_PLAIN[name], () if name == Identity.name else (name,))]


def _free(field_id: str, taken: Sequence[PartitionBy]) -> str:
    """`field_id`, with a number appended if another field has it."""
    names = {field.field_id for field in taken}
    number, name = 1, field_id
    while name in names:
        number += 1
        name = f"{field_id}_{number}"
    return name
