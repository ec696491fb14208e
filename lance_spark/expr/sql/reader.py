"""The parser behind `sql.parse`: sqlglot parses a filter, and its tree is translated into ours by an allowlist.

sqlglot accepts more than the grammar of filters, and represents some of it in unexpected ways: `x IS NAN` is a
comparison with a column `nan`, SYMMETRIC a flag of BETWEEN, the length of VARCHAR is lost, the AND of BETWEEN is
optional. Hence:

- words: sqlglot sees only the keywords of this grammar. Every name and constant is replaced by the number of its
  token, so that none can be mistaken for a keyword or function of sqlglot, or a value it would rewrite.
- nodes: each node class has a rule that lists its allowed arguments; all others are rejected.
- tokens: a rule accounts for the tokens of its node, and together they must be exactly those of the text.
- operators: an operand must have the precedence of Spark's grammar (SqlBaseParser.g4). Where sqlglot would group
  differently, as in `a = b IN (c)`, the text needs parentheses.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError

from lance_spark.errors import InvalidInputError
from lance_spark.expr import nodes
from lance_spark.expr.function_names import FunctionName
from lance_spark.expr.literals import Literal, literal
from lance_spark.expr.nodes import MAX_DEPTH, MAX_TREE_DEPTH, ArithmeticOp, ComparisonOp, Expr
from lance_spark.expr.sql.calls import CALLS, now_literal, today_expression
from lance_spark.expr.sql.literals import (
    INTERVAL_UNITS,
    read_interval,
    read_number,
    read_typed,
)
from lance_spark.expr.sql.tokens import NAMES, UNSUPPORTED, FilterToken, position_text, sent_text, tokenize, unexpected

# Precedence of nodes in Spark's grammar, lowest first

_OR, _AND, _NOT, _PREDICATE, _COMPARISON, _SUM, _PRODUCT, _SIGNED, _TERM = range(9)


_LEAVES = (exp.Identifier, exp.Literal, exp.Var, exp.Anonymous)


class Reader:
    """Translates a filter from text to our tree; counts the tokens that the tree accounts for."""

    def __init__(self, sql: str, time_zone: str) -> None:
        self.time_zone = time_zone
        self._sql = sql
        self._tokens = tokenize(sql)
        self._taken: Counter[str] = Counter()
        self._depth = 0

    def read(self) -> Expr:
        """The filter.

        Raises:
            InvalidInputError: the text is not a valid filter.
            RecursionError: it nests too deep.
        """
        # `line` is the token's number, by which errors find it.
        given = [
            Token(TokenType.VAR if token.kind in NAMES else token.kind, sent_text(number, token), number, 0)
            for number, token in enumerate(self._tokens)
        ]
        try:
            (node,) = Spark.Parser(dialect="spark").parse_into(exp.Condition, given, self._sql)
        except ParseError as error:
            raise self._where_parsing_ended(error) from error
        if node is None:
            raise unexpected(self._sql, len(self._sql), len(self._sql))
        filter_ = self.expr(node)
        written = Counter(token.text for token in given)
        for token, sent in zip(self._tokens, given, strict=True):
            if self._taken[sent.text] < written[sent.text]:
                raise unexpected(self._sql, token.start, token.end)
        for missing in self._taken - written:
            # sqlglot adds parentheses where its tree is grouped differently than the text would be.
            what = "a predicate beside a comparison needs parentheses, as in (a = b) IS NULL"
            raise InvalidInputError(what if "PAREN" in missing else f"{missing} is missing in the filter")
        return filter_

    def _where_parsing_ended(self, error: ParseError) -> InvalidInputError:
        errors = error.errors[0]
        number, what = min(errors["line"] or 0, len(self._tokens) - 1), str(errors["description"])
        for token in self._tokens[: number + 1]:
            if token.word.lower() in UNSUPPORTED:
                return unexpected(self._sql, token.start, token.end)
        if number == len(self._tokens) - 1 and not what.startswith("Invalid expression"):
            return unexpected(self._sql, len(self._sql), len(self._sql))
        return unexpected(self._sql, self._tokens[number].start, self._tokens[number].end)

    def refused(self, node: exp.Expr, message: str) -> InvalidInputError:
        """The error `message`, in which {} is the node's text, with the node's position."""
        leaves = [below.this for below in node.walk() if isinstance(below, _LEAVES) and self._number(below.this) >= 0]
        tokens = [self._tokens[self._number(leaf)] for leaf in leaves]
        start, end = min((token.start for token in tokens), default=0), max((token.end for token in tokens), default=0)
        text = self._sql[start:end] or type(node).__name__
        return InvalidInputError(f"{message.replace('{}', text[:80])} {position_text(self._sql, start)}")

    def _number(self, leaf: Any) -> int:
        number = int(leaf[1:]) if isinstance(leaf, str) and re.fullmatch("[0nN][0-9]+", leaf) else -1
        return number if number < len(self._tokens) else -1

    def leaf(self, leaf: Any) -> FilterToken:
        """The token of a name or constant in sqlglot's tree; accounts for it."""
        number = self._number(leaf)
        if number < 0:
            raise InvalidInputError(f"{leaf} is not supported here")
        self._taken[str(leaf).lower()] += 1
        return self._tokens[number]

    def take(self, tokens: str) -> None:
        """Accounts for other tokens, by their kinds."""
        self._taken.update(tokens.split())

    def take_list(self, values: int) -> None:
        """Accounts for parentheses and the commas between `values` values."""
        self._taken.update({"L_PAREN": 1, "R_PAREN": 1, "COMMA": max(values - 1, 0)})

    def expr(self, node: Any, least: int = _OR, **how: Any) -> Expr:
        """Our tree for sqlglot's, whose precedence must be at least `least`."""
        rule = self.enter(node, least)
        self._depth += 1
        if self._depth > MAX_TREE_DEPTH + MAX_DEPTH:
            raise RecursionError
        try:
            made = rule.read(self, node, **how)
        except InvalidInputError as error:
            raise error if str(error).endswith("of the filter") else self.refused(node, f"{error}, {{}}") from error
        self._depth -= 1
        if not node.args.get("negate"):
            return made
        self.take("NOT")
        return nodes.Not(made)

    def enter(self, node: Any, least: int) -> _Rule:
        """The node's rule, if the node is allowed here; accounts for the node's own tokens."""
        rule = _RULES.get(type(node))
        more = {name for name, value in node.args.items() if value} - set(rule.arguments.split() if rule else ())
        if rule is None or more:
            raise self.refused(
                node, f"{{}} ({type(node).__name__} of {', '.join(sorted(more))}) is not supported in a filter"
            )
        if rule.level < least:
            raise self.refused(node, "parentheses are needed around {}")
        self.take(rule.tokens)
        return rule

    def string(self, node: Any, what: str) -> str:
        """The text of a string constant."""
        value = self.expr(node)
        if isinstance(value, Literal) and isinstance(value.value, str):
            return value.value
        raise self.refused(node, f"{what} must be a string constant, got {{}}")


def _connective(reader: Reader, node: exp.And | exp.Or) -> Expr:
    level, first, terms = _RULES[type(node)].level, node.this, [node.expression]
    while type(first) is type(node):
        # Thousands of terms nest to the left.
        reader.enter(first, level)
        terms.append(first.expression)
        first = first.this
    made = tuple(reader.expr(term, level + 1) for term in (first, *reversed(terms)))
    return nodes.And(made) if level == _AND else nodes.Or(made)


def _is(reader: Reader, node: exp.Is) -> Expr:
    value, what = reader.expr(node.this, _COMPARISON), node.expression
    if isinstance(what, exp.Boolean):
        return nodes.Comparison(ComparisonOp.NULL_SAFE_EQ, value, reader.expr(what))
    if isinstance(what, exp.Null):
        reader.expr(what)
        return nodes.IsNull(value)
    if isinstance(what, exp.Column) and len(what.parts) == 1 and reader.leaf(what.name).word == "UNKNOWN":
        return nodes.IsNull(value)
    raise reader.refused(what, "IS takes NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM, got {}")


def _is_distinct(reader: Reader, node: exp.NullSafeEQ | exp.NullSafeNEQ) -> Expr:
    # IS NOT DISTINCT FROM is the token <=>, but with lower precedence.
    sides = (reader.expr(side, _SUM) for side in (node.this, node.expression))
    same = nodes.Comparison(ComparisonOp.NULL_SAFE_EQ, *sides)
    return same if isinstance(node, exp.NullSafeEQ) else nodes.Not(same)


def _between(reader: Reader, node: exp.Between) -> Expr:
    value, low, high = (reader.expr(node.args[name], _COMPARISON) for name in ("this", "low", "high"))
    return nodes.And((nodes.Comparison(ComparisonOp.GE, value, low), nodes.Comparison(ComparisonOp.LE, value, high)))


def _in(reader: Reader, node: exp.In) -> Expr:
    reader.take_list(len(node.expressions))
    return nodes.In(reader.expr(node.this, _COMPARISON), tuple(map(reader.expr, node.expressions)))


def _escape(reader: Reader, node: exp.Escape) -> Expr:
    if not isinstance(node.this, exp.Like | exp.ILike):
        raise reader.refused(node, "only LIKE and ILIKE have an ESCAPE")
    return reader.expr(node.this, _PREDICATE, escape=reader.string(node.expression, "the escape of LIKE"))


def _like(reader: Reader, node: exp.Like | exp.ILike, escape: str = "\\") -> Expr:
    value, pattern = reader.expr(node.this, _COMPARISON), reader.string(node.expression, "the pattern of LIKE")
    if isinstance(node, exp.Like):
        return nodes.Like(value, pattern, escape)
    if escape.isalpha():
        raise reader.refused(node, "the escape of ILIKE must not be a letter")
    nodes.like_tokens(pattern, escape)
    return nodes.Like(nodes.Function(FunctionName.LOWER, (value,)), pattern.lower(), escape)


def _rlike(reader: Reader, node: exp.RegexpLike) -> Expr:
    value, pattern = reader.expr(node.this, _COMPARISON), reader.expr(node.expression, _SUM)
    return nodes.Function(FunctionName.REGEXP_LIKE, (value, pattern))


def _compare(op: ComparisonOp, token: str) -> _Rule:
    def read(reader: Reader, node: Any) -> Expr:
        return nodes.Comparison(op, reader.expr(node.this, _COMPARISON), reader.expr(node.expression, _SUM))

    return _Rule(_COMPARISON, token, "this expression", read)


def _calculate(op: ArithmeticOp, level: int, token: str) -> _Rule:
    def read(reader: Reader, node: Any) -> Expr:
        return nodes.Arithmetic(op, reader.expr(node.this, level), reader.expr(node.expression, level + 1))

    # `safe` is the division by zero of Spark before its ANSI mode.
    return _Rule(level, token, "this expression safe", read)


def _concatenate(reader: Reader, node: exp.DPipe) -> Expr:
    return nodes.Function(FunctionName.CONCAT, (reader.expr(node.this, _SUM), reader.expr(node.expression, _PRODUCT)))


def _signed(reader: Reader, node: exp.Neg) -> Expr:
    number = node.this
    while isinstance(number, exp.JSONCast):
        number = number.this
    if isinstance(number, exp.Literal) and not number.is_string:
        # The sign belongs to the number, as in Spark: -9223372036854775808L is one, and -1::string is (-1)::string.
        return reader.expr(node.this, sign="-")
    return nodes.Negate(reader.expr(node.this, _SIGNED))


def _constant(reader: Reader, node: exp.Null | exp.Boolean) -> Expr:
    made = literal(node.args.get("this"))
    reader.take(made.to_sql())
    return made


def _literal(reader: Reader, node: exp.Literal, sign: str = "") -> Expr:
    token = reader.leaf(node.this)
    made: Literal | None
    if token.kind is TokenType.NUMBER:
        made, problem = read_number(sign + token.text), f"{sign}{{}} is out of range for its type"
    elif token.type == "INTERVAL":
        unit = token.unit.removesuffix("S")
        problem = f"INTERVAL takes a number of one of {', '.join(INTERVAL_UNITS)}, which a filter can hold, got {{}}"
        made = read_interval(token.text, unit) if unit in INTERVAL_UNITS or not unit else None
    elif token.type:
        made, problem = read_typed(token.type, token.text, reader.time_zone), f"{token.text!r} is no {token.type}"
    else:
        return literal(token.text)
    if made is None:
        raise reader.refused(node, problem)
    return made


def _column(reader: Reader, node: exp.Column | exp.Dot) -> Expr:
    names: list[Any] = []
    while isinstance(node, exp.Dot):
        names.append(node.expression)
        node = node.this
    # sqlglot takes the first four names of a path as catalog, schema, table and column.
    names += [node.args[part] for part in ("this", "table", "db", "catalog") if node.args.get(part)]
    if type(node) is not exp.Column or not all(type(name) is exp.Identifier for name in names):
        raise reader.refused(node, "{} is not supported in a filter: a path has names only")
    tokens = [reader.leaf(name.this) for name in reversed(names)]
    if len(tokens) == 1 and tokens[0].word in _MOMENTS:
        return _MOMENTS[tokens[0].word]()
    if tokens[0].word.lower() in nodes.RESERVED_WORDS:
        raise reader.refused(node, "{} is not supported here; a column of that name stands between backticks")
    reader.take("DOT " * (len(tokens) - 1))
    return nodes.Column(tuple(token.text for token in tokens))


_MOMENTS = {"CURRENT_TIMESTAMP": now_literal, "CURRENT_DATE": today_expression}
"""Functions that are called without parentheses."""


def _case(reader: Reader, node: exp.Case) -> Expr:
    branches, default = node.args["ifs"], node.args.get("default")
    subject = None if node.this is None else reader.expr(node.this)
    made = literal(None) if default is None else reader.expr(default)
    reader.take("CASE END" if default is None else "CASE ELSE END")
    for branch in reversed(branches):
        reader.take("WHEN THEN")
        condition, value = reader.expr(branch.this), reader.expr(branch.args["true"])
        if subject is not None:
            condition = nodes.Comparison(ComparisonOp.EQ, subject, condition)
        made = nodes.Function(FunctionName.IF, (condition, value, made))
    return made


def _colon_cast(reader: Reader, node: exp.JSONCast, **sign: str) -> Expr:
    return nodes.Cast(reader.expr(node.this, _TERM, **sign), _type(reader, node))


def _cast(reader: Reader, node: exp.TryCast) -> Expr:
    is_try = bool(node.args.get("safe"))
    reader.take("TRY_CAST" if is_try else "CAST")
    return nodes.Cast(reader.expr(node.this), _type(reader, node), is_try=is_try)


def _type(reader: Reader, cast: exp.Cast) -> pa.DataType:
    name, sizes = cast.to.sql("spark"), cast.to.expressions
    known = nodes.CAST_TYPES.get(name)
    if known is None and not re.fullmatch(r"DECIMAL(\(\d+(, \d+)?\))?", name):
        raise reader.refused(cast, f"CAST of {{}} to {name} is not supported in a filter")
    reader.take(cast.to.this.name)
    if known is not None:
        return known
    if sizes:
        reader.take_list(len(sizes))
    texts = [str(reader.expr(size.this)) for size in sizes] + ["10", "0"][len(sizes) :]
    precision, scale = (int(text) if text.isdecimal() else 99 for text in texts)
    if not (1 <= precision <= 38 and scale <= precision):
        raise reader.refused(cast, f"there is no type DECIMAL({', '.join(texts)}): {{}}")
    return pa.decimal128(precision, scale)


def _call(reader: Reader, node: exp.Anonymous) -> Expr:
    token = reader.leaf(node.this)
    count, call = CALLS.get(token.word.lower(), (0, None))
    if call is None:
        raise reader.refused(node, f"function {token.text} is not supported in a filter")
    reader.take_list(len(node.expressions))
    values = tuple(map(reader.expr, node.expressions))
    if count not in (None, len(values)):
        raise reader.refused(node, f"{token.text} takes {count} arguments, got {len(values)}")
    return call(token.word.lower(), values)


@dataclass(frozen=True, slots=True)
class _Rule:
    """A node's precedence, tokens, allowed arguments, and translation."""

    level: int
    tokens: str
    arguments: str
    read: Callable[..., Expr]


_RULES: dict[type[exp.Expr], _Rule] = {
    exp.Or: _Rule(_OR, "OR", "this expression", _connective),
    exp.And: _Rule(_AND, "AND", "this expression", _connective),
    exp.Not: _Rule(_NOT, "NOT", "this", lambda reader, node: nodes.Not(reader.expr(node.this, _NOT))),
    exp.Is: _Rule(_PREDICATE, "IS", "this expression negate", _is),
    exp.NullSafeEQ: _Rule(_PREDICATE, "NULLSAFE_EQ", "this expression", _is_distinct),
    exp.NullSafeNEQ: _Rule(_PREDICATE, "IS DISTINCT FROM", "this expression", _is_distinct),
    exp.Between: _Rule(_PREDICATE, "BETWEEN AND", "this low high", _between),
    exp.In: _Rule(_PREDICATE, "IN", "this expressions", _in),
    exp.Escape: _Rule(_PREDICATE, "ESCAPE", "this expression", _escape),
    exp.Like: _Rule(_PREDICATE, "LIKE", "this expression negate", _like),
    exp.ILike: _Rule(_PREDICATE, "ILIKE", "this expression negate", _like),
    exp.RegexpLike: _Rule(_PREDICATE, "RLIKE", "this expression negate", _rlike),
    exp.EQ: _compare(ComparisonOp.EQ, "EQ"),
    exp.NEQ: _compare(ComparisonOp.NE, "NEQ"),
    exp.LT: _compare(ComparisonOp.LT, "LT"),
    exp.LTE: _compare(ComparisonOp.LE, "LTE"),
    exp.GT: _compare(ComparisonOp.GT, "GT"),
    exp.GTE: _compare(ComparisonOp.GE, "GTE"),
    exp.Add: _calculate(ArithmeticOp.ADD, _SUM, "PLUS"),
    exp.Sub: _calculate(ArithmeticOp.SUBTRACT, _SUM, "DASH"),
    exp.Mul: _calculate(ArithmeticOp.MULTIPLY, _PRODUCT, "STAR"),
    exp.Div: _calculate(ArithmeticOp.DIVIDE, _PRODUCT, "SLASH"),
    exp.Mod: _calculate(ArithmeticOp.REMAINDER, _PRODUCT, "MOD"),
    exp.DPipe: _Rule(_SUM, "DPIPE", "this expression safe", _concatenate),
    exp.Neg: _Rule(_SIGNED, "DASH", "this", _signed),
    exp.Paren: _Rule(_TERM, "L_PAREN R_PAREN", "this", lambda reader, node: reader.expr(node.this)),
    exp.Null: _Rule(_TERM, "", "", _constant),
    exp.Boolean: _Rule(_TERM, "", "this", _constant),
    exp.Literal: _Rule(_TERM, "", "this is_string", _literal),
    exp.Column: _Rule(_TERM, "", "this table db catalog", _column),
    exp.Dot: _Rule(_TERM, "", "this expression", _column),
    exp.JSONCast: _Rule(_TERM, "DOTCOLON", "this to", _colon_cast),
    exp.TryCast: _Rule(_TERM, "ALIAS L_PAREN R_PAREN", "this to safe", _cast),
    exp.Case: _Rule(_TERM, "", "this ifs default", _case),
    exp.Anonymous: _Rule(_TERM, "", "this expressions", _call),
}
