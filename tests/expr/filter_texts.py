# ruff: noqa: E501
"""Random filters of the whole grammar: a text, written in an unusual but legal way, and the tree that it means."""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Callable
from decimal import Decimal
from typing import ClassVar

import pyarrow as pa

from lance_spark.expr.function_names import FunctionName
from lance_spark.expr.literals import FALSE, NULL, TRUE, Literal, literal
from lance_spark.expr.nodes import (
    And,
    Arithmetic,
    ArithmeticOp,
    ArrayContains,
    Cast,
    Column,
    Comparison,
    ComparisonOp,
    Expr,
    Function,
    In,
    IsNan,
    IsNull,
    Like,
    Negate,
    Not,
    Or,
    StringMatch,
    StringMatchOp,
)
from lance_spark.expr.sql.calls import ArrayOf

OR, AND, NOT, PREDICATE, COMPARISON, SUM, PRODUCT, SIGNED, TERM = range(9)
"""Precedence, lowest first."""

Written = tuple[list[str], Expr, int]
"""The pieces of a text, its tree, and its precedence."""

NAMES = [
    "a",
    "B",
    "_x1",
    "date",
    "when",
    "Then",
    "end",
    "as",
    "for",
    "from",
    "x",
    "r",
    "interval_",
    "escape",
    "é",
    "unknown",
]
QUOTED = ["and", "a.b", "tick`s", "select", " ", "Case", "5"]
NUMBERS: list[tuple[str, Literal]] = [
    ("0", literal(0)),
    ("007", literal(7)),
    ("123456789012345678901", literal(123456789012345678901)),
    ("9223372036854775807", literal(2**63 - 1)),
    ("5L", literal(5)),
    ("5s", literal(5)),
    ("5Y", literal(5)),
    ("1.50", literal(Decimal("1.50"))),
    (".5", literal(Decimal("0.5"))),
    ("5.", literal(Decimal(5))),
    ("5bd", literal(Decimal(5))),
    ("5e0", literal(5.0)),
    ("1.5E-3", literal(0.0015)),
    ("2d", literal(2.0)),
    ("0.5F", Literal(0.5, pa.float32())),
]
STRINGS = [
    ("''", ""),
    ("'a'", "a"),
    ('"it\'s"', "it's"),
    ("'it''s'", "it's"),
    (r"'\n\'\\\u00e9'", "\n'\\é"),
    ("'a' \"b\"", "ab"),
    (r"R'\d'", r"\d"),
    ("'-- /* `'", "-- /* `"),
]
TYPED: list[tuple[list[str], Literal]] = [
    (["DATE", "'2024-02-03'"], literal(datetime.date(2024, 2, 3))),
    (["TIMESTAMP", "'2024-02-03 04:05:06Z'"], literal(datetime.datetime(2024, 2, 3, 4, 5, 6, tzinfo=datetime.timezone.utc))),
    (["TIMESTAMP_NTZ", "'2024-02-03'"], literal(datetime.datetime(2024, 2, 3))),
    (["TIME", "'04:05:06'"], literal(datetime.time(4, 5, 6))),
    (["X", "'0aF'"], literal(b"\x00\xaf")),
    (["INTERVAL", "'90'", "MINUTES"], literal(datetime.timedelta(minutes=90))),
    (["INTERVAL", "'2 days'"], literal(datetime.timedelta(days=2))),
]  # fmt: skip
TYPES: list[tuple[list[str], pa.DataType]] = [
    (["INT"], pa.int32()),
    (["LONG"], pa.int64()),
    (["STRING"], pa.string()),
    (["DATE"], pa.date32()),
    (["DECIMAL"], pa.decimal128(10, 0)),
    (["NUMERIC", "(", "5", ")"], pa.decimal128(5, 0)),
    (["DECIMAL", "(", "5", ",", "2", ")"], pa.decimal128(5, 2)),
]
PATTERNS = [("'a%'", "a%", "\\"), (r"'\_x'", "\\_x", "\\"), ("'!%'", "!%", "!")]
BLANKS = [" ", "  ", "\t", "\n", "\r\n", " /* it's */ ", " -- a = `b\n", "/**/", " /*/ */ "]


class Writer:
    """Random filters, of at most `depth` operators in one another."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def filter(self, depth: int) -> tuple[str, Expr]:
        """A text and its tree."""
        pieces, tree, _ = self._any(depth)
        return self._joined(pieces), tree

    def _joined(self, pieces: list[str]) -> str:
        text = self.rng.choice(["", *BLANKS])
        for before, piece in zip(["(", *pieces], pieces, strict=False):
            is_needed = re.search(r"[\w.][\w'\"`.]|--|''|\"\"|``|[:<>=!|][:<>=!|]", before[-1] + piece[0])
            text += (self.rng.choice(BLANKS) if is_needed or self.rng.random() < 0.5 else "") + piece
        return text + self.rng.choice(["", *BLANKS])

    def _word(self, word: str) -> str:
        return self.rng.choice([word.upper(), word.lower(), word.title()])

    def _words(self, words: str) -> list[str]:
        return [self._word(word) for word in words.split()]

    def _any(self, depth: int) -> Written:
        return self.rng.choice(self._kinds if depth > 0 else self._leaves)(self, depth - 1)

    def _at(self, depth: int, least: int) -> tuple[list[str], Expr]:
        """A part with this precedence or more, in parentheses if it has less, and sometimes if not."""
        pieces, tree, level = self._any(depth)
        return (["(", *pieces, ")"] if level < least or self.rng.random() < 0.1 else pieces), tree

    def _several(self, depth: int, least: int, separator: list[str]) -> tuple[list[str], tuple[Expr, ...]]:
        pieces, first = self._at(depth, least)
        trees = [first]
        for _ in range(self.rng.randrange(1, 4)):
            more, tree = self._at(depth, least)
            pieces = [*pieces, *separator, *more]
            trees.append(tree)
        return pieces, tuple(trees)

    def _column(self, _depth: int) -> Written:
        path: list[str] = []
        pieces: list[str] = []
        for number in range(self.rng.choice([1, 1, 1, 2, 3])):
            if self.rng.random() < 0.2:
                name = self.rng.choice(QUOTED)
                written = "`" + name.replace("`", "``") + "`"
            else:
                # Words of CASE stand between backticks, because one can be open here.
                name = self.rng.choice(NAMES)
                written = f"`{name}`" if name.lower() in ("when", "then", "end") else name
            if number and self.rng.random() < 0.2:
                text, name = self.rng.choice([string for string in STRINGS if string[1] and ' "' not in string[0]])
                pieces += ["[", text, "]"]
            else:
                pieces += [".", written] if number else [written]
            path.append(name)
        return pieces, Column(tuple(path)), TERM

    def _number(self, _depth: int) -> Written:
        text, tree = self.rng.choice(NUMBERS)
        if self.rng.random() < 0.7 or text.startswith("0"):
            return [text], tree, TERM
        assert isinstance(tree.value, (int, float, Decimal))
        return ["-", text], Literal(-tree.value, tree.type), SIGNED

    def _constant(self, _depth: int) -> Written:
        if self.rng.random() < 0.4:
            text, value = self.rng.choice(STRINGS)
            return [text], literal(value), TERM
        if self.rng.random() < 0.5:
            word, tree = self.rng.choice([("NULL", NULL), ("TRUE", TRUE), ("FALSE", FALSE)])
            return [self._word(word)], tree, TERM
        pieces, tree = self.rng.choice(TYPED)
        return [self._word(pieces[0]), pieces[1], *(self._word(unit) for unit in pieces[2:])], tree, TERM

    def _and(self, depth: int) -> Written:
        pieces, terms = self._several(depth, NOT, [self._word("AND")])
        return pieces, And(terms), AND

    def _or(self, depth: int) -> Written:
        pieces, terms = self._several(depth, AND, [self._word("OR")])
        return pieces, Or(terms), OR

    def _not(self, depth: int) -> Written:
        pieces, tree = self._at(depth, NOT)
        return [self.rng.choice(["!", self._word("NOT")]), *pieces], Not(tree), NOT

    def _compare(self, depth: int) -> Written:
        op = self.rng.choice([*ComparisonOp])
        pieces, left = self._at(depth, SUM)
        others, right = self._at(depth, SUM)
        written = self.rng.choice({"=": ["=", "=="], "<>": ["<>", "!="]}.get(op.value, [op.value]))
        made = Comparison(op, left, right)
        if op is ComparisonOp.NULL_SAFE_EQ:
            sign = self.rng.choice([[written], self._words("IS NOT DISTINCT FROM")])
            return [*pieces, *sign, *others], made, PREDICATE
        if self.rng.random() < 0.1:
            more, third = self._at(depth, SUM)
            return [*pieces, written, *others, "=", *more], Comparison(ComparisonOp.EQ, made, third), COMPARISON
        return [*pieces, written, *others], made, COMPARISON

    def _distinct(self, depth: int) -> Written:
        pieces, left = self._at(depth, SUM)
        others, right = self._at(depth, SUM)
        tree = Not(Comparison(ComparisonOp.NULL_SAFE_EQ, left, right))
        return [*pieces, *self._words("IS DISTINCT FROM"), *others], tree, PREDICATE

    def _predicate(self, depth: int) -> Written:
        """A predicate that can be negated."""
        value, tree = self._at(depth, SUM)
        not_ = self.rng.choice([[], [self.rng.choice(["!", self._word("NOT")])]])
        made: Expr
        kind = self.rng.choice(["IS", "BETWEEN", "IN", "LIKE", "ILIKE", "RLIKE"])
        pieces = [*value, *not_, self._word(kind)]
        if kind == "IS":
            word = self.rng.choice(["NULL", "UNKNOWN", "TRUE", "FALSE"])
            pieces = [*value, self._word("IS"), *not_, self._word(word)]
            constant = {"TRUE": TRUE, "FALSE": FALSE}.get(word)
            made = IsNull(tree) if constant is None else Comparison(ComparisonOp.NULL_SAFE_EQ, tree, constant)
        elif kind == "BETWEEN":
            low_pieces, low = self._at(depth, SUM)
            high_pieces, high = self._at(depth, SUM)
            pieces += [*low_pieces, self._word("AND"), *high_pieces]
            made = And((Comparison(ComparisonOp.GE, tree, low), Comparison(ComparisonOp.LE, tree, high)))
        elif kind == "IN":
            options, trees = self._several(depth, OR, [","])
            pieces += ["(", *options, ")"]
            made = In(tree, trees)
        elif kind == "RLIKE":
            others, pattern = self._at(depth, SUM)
            pieces += others
            made = Function(FunctionName.REGEXP_LIKE, (tree, pattern))
        else:
            text, pattern_text, escape = self.rng.choice(PATTERNS)
            pieces += [text] if escape == "\\" else [text, self._word("ESCAPE"), f"'{escape}'"]
            value_tree = tree if kind == "LIKE" else Function(FunctionName.LOWER, (tree,))
            made = Like(value_tree, pattern_text, escape)
        return pieces, Not(made) if not_ else made, NOT if not_ else PREDICATE

    def _sum(self, depth: int) -> Written:
        return self._calculation(depth, {"+": ArithmeticOp.ADD, "-": ArithmeticOp.SUBTRACT, "||": None}, SUM)

    def _product(self, depth: int) -> Written:
        ops = {"*": ArithmeticOp.MULTIPLY, "/": ArithmeticOp.DIVIDE, "%": ArithmeticOp.REMAINDER}
        return self._calculation(depth, {**ops}, PRODUCT)

    def _calculation(self, depth: int, ops: dict[str, ArithmeticOp | None], level: int) -> Written:
        pieces, tree = self._at(depth, level)
        for _ in range(self.rng.randrange(1, 4)):
            sign, op = self.rng.choice([*ops.items()])
            more, right = self._at(depth, level + 1)
            pieces = [*pieces, sign, *more]
            tree = Function(FunctionName.CONCAT, (tree, right)) if op is None else Arithmetic(op, tree, right)
        return pieces, tree, level

    def _negative(self, depth: int) -> Written:
        pieces, tree = self._at(depth, SIGNED)
        if pieces[0] not in ("(", "-"):
            pieces = ["(", *pieces, ")"]  # The sign would belong to a number.
        return ["-", *pieces], Negate(tree), SIGNED

    def _cast(self, depth: int) -> Written:
        type_pieces, type_ = self.rng.choice(TYPES)
        type_pieces = [self._word(type_pieces[0]), *type_pieces[1:]]
        if self.rng.random() < 0.4:
            pieces, tree = self._at(depth, TERM)
            return [*pieces, "::", *type_pieces], Cast(tree, type_), TERM
        pieces, tree = self._at(depth, OR)
        word = self.rng.choice(["CAST", "TRY_CAST"])
        return (
            [self._word(word), "(", *pieces, self._word("AS"), *type_pieces, ")"],
            Cast(tree, type_, is_try=word == "TRY_CAST"),
            TERM,
        )

    def _case(self, depth: int) -> Written:
        pieces, subject = [self._word("CASE")], None
        if self.rng.random() < 0.5:
            more, subject = self._at(depth, OR)
            pieces += more
        branches = []
        for _ in range(self.rng.randrange(1, 3)):
            condition_pieces, condition = self._at(depth, OR)
            value_pieces, value = self._at(depth, OR)
            pieces += [self._word("WHEN"), *condition_pieces, self._word("THEN"), *value_pieces]
            branches.append((condition if subject is None else Comparison(ComparisonOp.EQ, subject, condition), value))
        made: Expr = NULL
        if self.rng.random() < 0.5:
            more, made = self._at(depth, OR)
            pieces += [self._word("ELSE"), *more]
        for condition, value in reversed(branches):
            made = Function(FunctionName.IF, (condition, value, made))
        return [*pieces, self._word("END")], made, TERM

    def _call(self, depth: int) -> Written:
        pieces, value = self._at(depth, OR)
        others, other = self._at(depth, OR)
        text, string = self.rng.choice(STRINGS)
        calls: list[tuple[str, list[list[str]], Expr]] = [
            ("abs", [pieces], Function(FunctionName.ABS, (value,))),
            ("ucase", [pieces], Function(FunctionName.UPPER, (value,))),
            ("coalesce", [pieces, others], Function(FunctionName.COALESCE, (value, other))),
            ("isnan", [pieces], IsNan(value)),
            ("isnotnull", [pieces], Not(IsNull(value))),
            ("nullif", [pieces, others], Function(FunctionName.IF, (Comparison(ComparisonOp.EQ, value, other), NULL, value))),
            ("starts_with", [pieces, [text]], StringMatch(StringMatchOp.STARTS_WITH, value, string)),
            ("array_has", [pieces, [text]], ArrayContains(value, literal(string))),
            ("list_has_all", [pieces, ["[", "1", ",", "2", "]"]], And((ArrayContains(value, literal(1)), ArrayContains(value, literal(2))))),
            ("array", [pieces, others], ArrayOf((value, other))),
            ("array", [], ArrayOf(())),
        ]  # fmt: skip
        name, arguments, tree = self.rng.choice(calls)
        inner = [piece for argument in arguments for piece in [",", *argument]][1:]
        if name == "array" and self.rng.random() < 0.5:
            return ["(", "[", *inner, "]", ")"], tree, TERM
        return [self._word(name), "(", *inner, ")"], tree, TERM

    def _call_with_words(self, depth: int) -> Written:
        first, value = self._at(depth, SUM)
        second, start = self._at(depth, SUM)
        third, length = self._at(depth, SUM)
        name, from_, for_ = self._words("SUBSTRING FROM FOR")
        if self.rng.random() < 0.5:
            pieces = [self._word("EXTRACT"), "(", self._word("year"), from_, *first, ")"]
            return pieces, Function(FunctionName.YEAR, (value,)), TERM
        pieces = [name, "(", *first, self.rng.choice([from_, ","]), *second, self.rng.choice([for_, ","]), *third, ")"]
        return pieces, Function(FunctionName.SUBSTRING, (value, start, length)), TERM

    _leaves: ClassVar[list[Callable[[Writer, int], Written]]] = [_column, _column, _number, _constant]
    _kinds: ClassVar[list[Callable[[Writer, int], Written]]] = [
        *_leaves,
        *(_and, _or, _not, _compare, _compare, _distinct, _predicate, _predicate),
        *(_sum, _product, _negative, _cast, _case, _call, _call_with_words),
    ]
