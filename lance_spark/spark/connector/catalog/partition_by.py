"""PARTITIONED BY: converts Spark's transforms to partition fields.

`years`, `months`, `days` and `hours` of Spark are the levels of a hierarchy here: `days(ts)` is year, month and day.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql.types import LongType, StringType

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.spec import PartitionSpec
from lance_spark.partitioned.transforms.base import Transform
from lance_spark.partitioned.transforms.bucket import MAX_BUCKETS, Bucket, MultiBucket
from lance_spark.partitioned.transforms.date_part import Day, Hour, Month, Year
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.partitioned.transforms.truncate import Truncate
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.projection import parse_path
from lance_spark.spark.connector.scan.partition_keys import SparkTransform, spark_transforms
from lance_spark.spark.predicates import SparkExpression

_PARTS: dict[str, Transform] = {"year": Year(), "month": Month(), "day": Day(), "hour": Hour()}
_NUMBERED: dict[str, Callable[[int], Transform]] = {"bucket": Bucket, "truncate": Truncate, "multi_bucket": MultiBucket}
_PLAIN: dict[str, Transform] = {"identity": Identity(), **_PARTS}
_EXPRESSION = "expression"
NO_CLUSTERING = (
    "tables have no clustering columns; leave CLUSTER BY out and sort the rows that you write, as in INSERT OVERWRITE "
    "t SELECT * FROM t ORDER BY a, b"
)
_OTHER_CLAUSES = {
    "cluster_by": NO_CLUSTERING,
    "sorted_bucket": "buckets are not sorted; leave SORTED BY out, or write PARTITIONED BY (bucket(16, id))",
}
"""Clauses that Spark turns into transforms."""

_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)
_NAME = r"(?:`(?:[^`]|``)+`|\w+)"
_ARGUMENT = re.compile(
    rf"""\s*(?:(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")|(?P<number>[0-9]+)(?![\w.`])
    |(?P<path>{_NAME}(?:\s*\.\s*{_NAME})*))\s*(?P<end>,|\Z)""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(.)|''|\"\"", re.DOTALL)


def partition_fields(transforms: Sequence[SparkExpression]) -> list[PartitionBy]:
    """The fields of the spec of a statement; a level shared by two hierarchies is one field.

    Raises:
        InvalidInputError: invalid arguments of a transform.
        UnsupportedFeatureError: not a transform of the partitioning specification.

    >>> (days,) = [SparkExpression(transform="days", children=(SparkExpression(column=("ts",)),))]
    >>> [field.field_id for field in partition_fields([days])]
    ['ts_year', 'ts_month', 'ts_day']
    """
    found: list[PartitionBy] = []
    for expression in transforms:
        if expression.transform == _EXPRESSION:
            found.append(_expression(expression, found))
            continue
        columns, numbers = _arguments(expression)
        for transform, suffix in _levels(expression.transform or "?", columns, numbers):
            names = ["_".join(column) for column in columns]
            field_id = re.sub(r"\.", "_", "_".join([*names, *suffix]))
            if any(field.sources == columns and field.transform == transform for field in found):
                continue
            found.append(PartitionBy(_free(field_id, found), columns, transform))
    return found


@dataclass(frozen=True, slots=True)
class ShownExpression(SparkTransform):
    """A partition field that is an expression; `text` is the first argument."""

    text: str = ""


def shown_fields(spec: PartitionSpec, schema: LanceSchema) -> list[SparkTransform]:
    """The partitioning for DESCRIBE and SHOW CREATE TABLE, without fields of dropped columns."""
    found: list[SparkTransform] = []
    for field in spec.fields:
        paths = [path for path in field.source_columns(schema) if path is not None]
        if field.expression is None:
            found += spark_transforms(PartitionSpec(spec.id, (field,)), schema)
        elif len(paths) == len(field.source_ids):
            found.append(ShownExpression(_EXPRESSION, tuple(paths), text=field.expression))
    return found


def parse_transform(text: str) -> SparkExpression:
    """Parses a transform as in PARTITIONED BY: `bucket(16, id)`, `country`.

    Raises:
        InvalidInputError: it is not a transform.

    >>> parse_transform("bucket(16, `a b`.c)").children[1].column
    ('a b', 'c')
    """
    call = _CALL.fullmatch(text)
    if call is None:
        return SparkExpression(transform=Identity.name, children=(SparkExpression(column=parse_path(text.strip())),))
    arguments: list[SparkExpression] = []
    position, has_more = 0, bool(call[2].strip())
    while has_more:
        match = _ARGUMENT.match(call[2], position)
        if match is None:
            raise InvalidInputError(f"{text!r} is no partition transform; write one such as bucket(16, id) or days(ts)")
        arguments.append(_argument(match))
        position, has_more = match.end(), match["end"] == ","
    return SparkExpression(transform=call[1].lower(), children=tuple(arguments))


def _argument(match: re.Match[str]) -> SparkExpression:
    if match["number"] is not None:
        return SparkExpression(literal=match["number"], type=LongType())
    if match["text"] is not None:
        body = _ESCAPED.sub(lambda found: found[1] or found[0][0], match["text"][1:-1])
        return SparkExpression(literal=body, type=StringType())
    names = re.findall(_NAME, match["path"])
    return SparkExpression(column=tuple(name.replace("``", "\0").replace("`", "").replace("\0", "`") for name in names))


def _expression(expression: SparkExpression, found: Sequence[PartitionBy]) -> PartitionBy:
    """`expression('col0 % 10', id)`: the expression, then its columns."""
    first, *rest = expression.children or (SparkExpression(),)
    columns = tuple(child.column for child in rest if child.column is not None)
    if not isinstance(first.type, StringType) or first.literal is None or not columns or len(columns) < len(rest):
        raise InvalidInputError(
            "expression takes a text in SQL on col0, col1, ... and these columns, as in expression('col0 % 10', id)"
        )
    field_id = "_".join(["_".join(column) for column in columns] + [_EXPRESSION]).replace(".", "_")
    return PartitionBy(_free(field_id, found), columns, expression=first.literal)


def _arguments(expression: SparkExpression) -> tuple[tuple[tuple[str, ...], ...], tuple[int, ...]]:
    columns = tuple(child.column for child in expression.children if child.column is not None)
    texts = [child.literal for child in expression.children if child.column is None]
    if any(text is None or not re.fullmatch(r"[0-9]{1,10}", text, re.ASCII) for text in texts):
        raise InvalidInputError(f"{expression.transform} takes columns, and a number that is not negative")
    return columns, tuple(int(text) for text in texts if text is not None)


def _levels(
    name: str, columns: Sequence[tuple[str, ...]], numbers: Sequence[int]
) -> list[tuple[Transform, tuple[str, ...]]]:
    """The levels of one of Spark's transforms, each with the suffix of its field's name."""
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
    if name in _OTHER_CLAUSES:
        raise UnsupportedFeatureError(_OTHER_CLAUSES[name], feature=name)
    if name not in _PLAIN and name not in depths:
        known = ", ".join([*_PLAIN, *depths, *_NUMBERED, _EXPRESSION])
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
