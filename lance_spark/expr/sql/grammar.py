"""The grammar of filters, by recursive descent: from tokens to a tree.

    condition   := negation ((AND | OR) negation)*             AND binds closer
    negation    := NOT* predicate
    predicate   := arithmetic (compare arithmetic)*
                 | arithmetic (<=> | IS [NOT] DISTINCT FROM) arithmetic
                 | arithmetic IS [NOT] (NULL | TRUE | FALSE | UNKNOWN)
                 | arithmetic [NOT] (BETWEEN arithmetic AND arithmetic | IN (condition, ...) | RLIKE arithmetic
                                     | (LIKE | ILIKE) string [ESCAPE string])
    arithmetic  := signed ((* | / | %) signed)* ((+ | - | ||) ...)*
    signed      := -* term
    term        := (constant | path | call | CASE ... END | CAST(...) | (condition) | [condition, ...]) (:: type)*

Precedence is as in Spark (SqlBaseParser.g4), with one restriction: comparisons and predicates in a row, which
dialects of SQL group differently, need parentheses, except where both readings are the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr import nodes
from lance_spark.expr.function_names import FunctionName
from lance_spark.expr.literals import FALSE, NULL, TRUE, Literal
from lance_spark.expr.nodes import MAX_DEPTH, ArithmeticOp, ComparisonOp, Expr
from lance_spark.expr.sql.calls import CALLS, now_literal, today_expression
from lance_spark.expr.sql.literals import (
    INTERVAL_UNITS,
    TYPED_LITERALS,
    read_interval,
    read_number,
    read_string,
    read_typed,
)
from lance_spark.expr.sql.tokens import (
    END,
    NAME,
    NUMBER_KIND,
    QUOTED,
    STRING_KIND,
    FilterToken,
    position_text,
    tokenize,
    unexpected,
)

_Made = TypeVar("_Made")

_STRING = pa.string()
_CONSTANTS = {"NULL": NULL, "TRUE": TRUE, "FALSE": FALSE}
_EQUALITIES = {"=": ComparisonOp.EQ, "<>": ComparisonOp.NE}
_COMPARISONS = _EQUALITIES | {
    op.value: op for op in (ComparisonOp.LT, ComparisonOp.LE, ComparisonOp.GT, ComparisonOp.GE)
}
_PREDICATES = {*_COMPARISONS, "<=>", "NOT", "IS", "BETWEEN", "IN", "LIKE", "ILIKE", "RLIKE"}

_SUM, _PRODUCT = 1, 2
_ARITHMETIC: dict[str, tuple[int, ArithmeticOp | None]] = {
    "+": (_SUM, ArithmeticOp.ADD),
    "-": (_SUM, ArithmeticOp.SUBTRACT),
    "||": (_SUM, None),
    "*": (_PRODUCT, ArithmeticOp.MULTIPLY),
    "/": (_PRODUCT, ArithmeticOp.DIVIDE),
    "%": (_PRODUCT, ArithmeticOp.REMAINDER),
}
"""Precedence and operator; None is the concatenation of texts."""

_TYPES = nodes.CAST_TYPES | {
    "BYTE": pa.int8(),
    "SHORT": pa.int16(),
    "INTEGER": pa.int32(),
    "LONG": pa.int64(),
    "REAL": pa.float32(),
}
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
_MOMENTS = {"CURRENT_TIMESTAMP": now_literal, "CURRENT_DATE": today_expression}
"""Functions that are called without parentheses."""
_CASE_WORDS = ("WHEN", "THEN", "ELSE", "END")
"""Names, unless a CASE is open."""
_COMMA_WORDS = {"SUBSTRING": ("FROM", "FOR"), "SUBSTR": ("FROM", "FOR"), "EXTRACT": ("FROM",)}
"""The words that can stand for the commas of a call."""
_HAS_UNIT = re.compile(r"[0-9]\s+[A-Za-z]+\s*\Z")
"""The text of an interval such as '7 days'."""


class Reader:
    """A filter that is read from left to right."""

    def __init__(self, sql: str, time_zone: str) -> None:
        self._sql = sql
        self._time_zone = time_zone
        self._tokens = tokenize(sql)
        self._place = 0
        self._levels = 0
        self._cases = 0

    def read(self) -> Expr:
        """The filter.

        Raises:
            InvalidInputError: the text is not a valid filter.
        """
        condition = self._condition()
        self._need(END)
        return condition

    # Tokens

    @property
    def _token(self) -> FilterToken:
        return self._tokens[self._place]

    def _next(self) -> FilterToken:
        token = self._tokens[self._place]
        self._place += 1
        return token

    def _take(self, kind: str) -> bool:
        """Passes the next token, if it is of this kind."""
        if self._tokens[self._place].kind != kind:
            return False
        self._place += 1
        return True

    def _take_word(self, *words: str) -> bool:
        """Passes the next tokens, if they are these words."""
        tokens = self._tokens[self._place : self._place + len(words)]
        if any(token.word != word for token, word in zip(tokens, words, strict=False)):
            return False
        self._place += len(words)
        return True

    def _need(self, kind: str) -> None:
        if not self._take(kind):
            raise unexpected(self._sql, self._token)

    def _need_word(self, word: str) -> None:
        token = self._token
        if token.word == word or token.kind == word:
            self._place += 1
        elif token.kind == END or token.is_unsupported:
            raise unexpected(self._sql, token)
        else:
            self._refuse(token.start, f"{word} is missing before {token.text!r}")

    def _refuse(self, start: int, message: str) -> NoReturn:
        raise InvalidInputError(f"{message} {position_text(self._sql, start)}")

    def _text_from(self, start: int) -> str:
        """Text that was read since, for messages."""
        end = max(self._tokens[max(self._place - 1, 0)].end, start)
        return self._sql[start : min(end, start + 80)]

    def _made(self, start: int, make: Callable[[], _Made]) -> _Made:
        """Result of `make` for the text from `start`; an error names the position."""
        try:
            return make()
        except InvalidInputError as error:
            raise InvalidInputError(f"{error}, {self._text_from(start)} {position_text(self._sql, start)}") from error

    def _enter(self, levels: int = 1) -> None:
        self._levels += levels
        if self._levels > MAX_DEPTH:
            self._refuse(self._token.start, f"more than {MAX_DEPTH} levels of nesting")

    def _leave(self, levels: int = 1) -> None:
        self._levels -= levels

    # Operators

    def _condition(self) -> Expr:
        alternatives: list[Expr] = []
        terms = [self._negation()]
        while True:
            if self._take("OR"):
                alternatives.append(terms[0] if len(terms) == 1 else nodes.And(tuple(terms)))
                terms = []
            elif not self._take("AND"):
                break
            terms.append(self._negation())
        alternatives.append(terms[0] if len(terms) == 1 else nodes.And(tuple(terms)))
        return alternatives[0] if len(alternatives) == 1 else nodes.Or(tuple(alternatives))

    def _negation(self) -> Expr:
        negations = 0
        while self._take("NOT"):
            self._enter()
            negations += 1
        condition = self._predicate()
        self._leave(negations)
        for _ in range(negations):
            condition = nodes.Not(condition)
        return condition

    def _predicate(self) -> Expr:
        start = self._token.start
        node = self._arithmetic()
        kind = self._token.kind
        if kind not in _PREDICATES:
            return node
        if kind in _COMPARISONS:
            node = self._compared(node)
        elif self._take("<=>"):
            node = nodes.Comparison(ComparisonOp.NULL_SAFE_EQ, node, self._arithmetic())
        elif self._take("IS"):
            node = self._is(node)
        else:
            negated = self._take("NOT")
            node = self._tested(node, start)
            node = nodes.Not(node) if negated else node
        if self._token.kind in _PREDICATES:
            what = "a predicate beside a comparison needs parentheses, as in (a = b) IS NULL,"
            self._refuse(self._token.start, what)
        return node

    def _compared(self, left: Expr) -> Expr:
        """Comparisons in a row. Spark groups them from the left; others let < bind closer than =."""
        allowed = _COMPARISONS
        while self._token.kind in allowed:
            op = allowed[self._next().kind]
            left = nodes.Comparison(op, left, self._arithmetic())
            allowed = _EQUALITIES if op in _EQUALITIES.values() else allowed
        return left

    def _is(self, value: Expr) -> Expr:
        negated = self._take("NOT")
        token = self._token
        if self._take_word("DISTINCT", "FROM"):
            node: Expr = nodes.Comparison(ComparisonOp.NULL_SAFE_EQ, value, self._arithmetic())
            negated = not negated
        elif self._take("NULL") or self._take_word("UNKNOWN"):
            node = nodes.IsNull(value)
        elif self._take("TRUE") or self._take("FALSE"):
            node = nodes.Comparison(ComparisonOp.NULL_SAFE_EQ, value, _CONSTANTS[token.kind])
        elif token.kind == END:
            raise unexpected(self._sql, token)
        else:
            self._refuse(token.start, f"IS takes NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM, got {token.text!r}")
        return nodes.Not(node) if negated else node

    def _tested(self, value: Expr, start: int) -> Expr:
        token = self._next()
        if token.kind == "IN":
            self._need("(")
            options = self._list(")")
            return self._made(start, lambda: nodes.In(value, options))
        if token.kind == "BETWEEN":
            low = nodes.Comparison(ComparisonOp.GE, value, self._arithmetic())
            self._need_word("AND")
            return nodes.And((low, nodes.Comparison(ComparisonOp.LE, value, self._arithmetic())))
        if token.kind == "RLIKE":
            node = nodes.Function(FunctionName.REGEXP_LIKE, (value, self._arithmetic()))
            if self._token.word == "ESCAPE":
                self._refuse(self._token.start, "only LIKE and ILIKE have an ESCAPE")
            return node
        if token.kind not in ("LIKE", "ILIKE"):
            raise unexpected(self._sql, token)
        pattern = self._string("the pattern of LIKE")
        escape = self._string("the escape of LIKE") if self._take_word("ESCAPE") else "\\"
        if token.kind == "LIKE":
            return self._made(start, lambda: nodes.Like(value, pattern, escape))
        if escape.isalpha():
            self._refuse(start, "the escape of ILIKE must not be a letter")
        self._made(start, lambda: nodes.like_tokens(pattern, escape))
        lower = nodes.Function(FunctionName.LOWER, (value,))
        return self._made(start, lambda: nodes.Like(lower, pattern.lower(), escape))

    def _string(self, what: str) -> str:
        """The text of a string constant."""
        start = self._token.start
        value = self._arithmetic()
        if isinstance(value, Literal) and isinstance(value.value, str):
            return value.value
        self._refuse(start, f"{what} must be a string constant, got {self._text_from(start)}")

    def _arithmetic(self, least: int = _SUM) -> Expr:
        left = self._signed()
        while (operator := _ARITHMETIC.get(self._tokens[self._place].kind)) and operator[0] >= least:
            level, op = operator
            self._place += 1
            right = self._signed() if level == _PRODUCT else self._arithmetic(_PRODUCT)
            if op is None:
                left = nodes.Function(FunctionName.CONCAT, (left, right))
            else:
                left = nodes.Arithmetic(op, left, right)
        return left

    def _signed(self) -> Expr:
        signs = 0
        while self._take("-"):
            self._enter()
            signs += 1
        # The last sign belongs to a number, as in Spark: -9223372036854775808L is one, and -1::string is (-1)::string.
        is_number = signs > 0 and self._token.kind == NUMBER_KIND
        value = self._term("-" if is_number else "")
        self._leave(signs)
        for _ in range(signs - is_number):
            value = nodes.Negate(value)
        return value

    # Terms

    def _term(self, sign: str = "") -> Expr:
        token = self._next()
        kind = token.kind
        if kind == NUMBER_KIND:
            node: Expr = self._number(token, sign)
        elif kind == STRING_KIND:
            self._place -= 1
            node = Literal(self._joined_strings(), _STRING)
        elif kind == NAME:
            node = self._named(token)
        elif kind == QUOTED:
            node = self._path(token)
        elif kind in _CONSTANTS:
            node = _CONSTANTS[kind]
        elif kind == "(":
            node = self._in_parentheses()
        elif kind == "[":
            node = CALLS["array"][1]("array", self._list("]"))
        elif kind == "NOT":
            self._refuse(token.start, "parentheses are needed around NOT")
        else:
            raise unexpected(self._sql, token)
        while self._take("::"):
            node = nodes.Cast(node, self._type())
        return node

    def _in_parentheses(self) -> Expr:
        self._enter()
        node = self._condition()
        if self._token.kind == ",":
            self._refuse(self._token.start, "a list of values in parentheses is not supported in a filter")
        self._need(")")
        self._leave()
        return node

    def _list(self, close: str) -> tuple[Expr, ...]:
        """Conditions between commas, up to a closing sign that is passed too."""
        if self._take(close):
            return ()
        self._enter()
        values: list[Expr] = []
        tokens, ends = self._tokens, (",", close)
        while True:
            token = tokens[self._place]
            if token.kind in (NUMBER_KIND, STRING_KIND) and tokens[self._place + 1].kind in ends:
                # Lists have thousands of constants.
                self._place += 1
                is_number = token.kind == NUMBER_KIND
                values.append(self._number(token) if is_number else Literal(self._string_text(token), _STRING))
            else:
                values.append(self._condition())
            if tokens[self._place].kind != ",":
                break
            self._place += 1
        self._need(close)
        self._leave()
        return tuple(values)

    def _number(self, token: FilterToken, sign: str = "") -> Literal:
        number = read_number(sign + token.text)
        if number is None:
            self._refuse(token.start, f"{sign}{token.text[:80]} is out of range for its type")
        return number

    def _string_text(self, token: FilterToken) -> str:
        try:
            return read_string(token.text)
        except InvalidInputError as error:
            raise InvalidInputError(f"{error} {position_text(self._sql, token.start)}") from error

    def _joined_strings(self) -> str:
        """The text of strings one after another, which are one constant."""
        texts = []
        while self._token.kind == STRING_KIND:
            texts.append(self._string_text(self._next()))
        return "".join(texts)

    def _named(self, token: FilterToken) -> Expr:
        """A term that begins with a word: a call, a constant with its type, a moment, or a column."""
        word, after = token.word, self._token.kind
        if word == "CASE":
            return self._case()
        if word in _CASE_WORDS and self._cases:
            raise unexpected(self._sql, token)
        if after == "(":
            self._place += 1
            return self._cast(word) if word in ("CAST", "TRY_CAST") else self._call(token)
        if after == STRING_KIND and word == "INTERVAL":
            return self._interval(token)
        if after == STRING_KIND and word in TYPED_LITERALS:
            text = self._joined_strings()
            node = read_typed(word, text, self._time_zone)
            if node is None:
                self._refuse(token.start, f"{text!r} is no {word}")
            return node
        path = self._path(token)
        if word in _MOMENTS and len(path.path) == 1:
            return _MOMENTS[word]()
        if word.lower() in nodes.RESERVED_WORDS:
            if token.is_unsupported:
                raise unexpected(self._sql, token)
            what = (
                f"{self._text_from(token.start)} is not supported here; a column of that name stands between backticks"
            )
            self._refuse(token.start, what)
        return path

    def _interval(self, token: FilterToken) -> Expr:
        text, unit = self._joined_strings(), ""
        if self._token.kind == NAME and not _HAS_UNIT.search(text):
            unit = self._next().word.removesuffix("S")
        interval = read_interval(text, unit) if unit in INTERVAL_UNITS or not unit else None
        if interval is None:
            units, got = ", ".join(INTERVAL_UNITS), self._text_from(token.start)
            self._refuse(token.start, f"INTERVAL takes a number of one of {units}, which a filter can hold, got {got}")
        return interval

    def _path(self, first: FilterToken) -> nodes.Column:
        names = [self._name(first)]
        while True:
            if self._take("."):
                token = self._next()
                if token.kind not in (NAME, QUOTED):
                    what = f"{self._text_from(first.start)} is not supported in a filter: a path has names only,"
                    self._refuse(first.start, what)
                names.append(self._name(token))
            elif self._take("["):
                if self._token.kind not in (STRING_KIND, END):
                    self._refuse(
                        self._token.start,
                        "items of lists are counted from 1 by the reference library and from 0 by Spark; write "
                        "array_element(x, 1) for the first one,",
                    )
                token = self._token
                self._need(STRING_KIND)
                names.append(self._string_text(token))
                self._need("]")
            else:
                break
        if self._token.kind == "(":
            self._refuse(first.start, f"function {self._text_from(first.start)} is not supported in a filter")
        return self._made(first.start, lambda: nodes.Column(tuple(names)))

    def _name(self, token: FilterToken) -> str:
        if token.kind == QUOTED:
            return token.text[1:-1].replace("``", "`")
        if token.word == "CASE" or (self._cases and token.word in _CASE_WORDS):
            raise unexpected(self._sql, token)
        return token.text

    def _call(self, token: FilterToken) -> Expr:
        name = token.word.lower()
        if name not in CALLS:
            if token.is_unsupported:
                raise unexpected(self._sql, token)
            self._refuse(token.start, f"function {token.text} is not supported in a filter")
        count, call = CALLS[name]
        values = self._arguments(_COMMA_WORDS.get(token.word, ()))
        if count not in (None, len(values)):
            self._refuse(token.start, f"{token.text} takes {count} arguments, got {len(values)},")
        return self._made(token.start, lambda: call(name, values))

    def _arguments(self, comma_words: tuple[str, ...]) -> tuple[Expr, ...]:
        if not comma_words or self._token.kind == ")":
            return self._list(")")
        self._enter()
        values = [self._condition()]
        while self._take(",") or (comma_words and self._take_word(comma_words[0])):
            comma_words = comma_words[1:]
            values.append(self._condition())
        self._need(")")
        self._leave()
        return tuple(values)

    def _case(self) -> Expr:
        self._enter()
        self._cases += 1
        subject = None if self._token.word == "WHEN" else self._condition()
        branches: list[tuple[Expr, Expr]] = []
        while not branches or self._token.word == "WHEN":
            self._need_word("WHEN")
            condition = self._condition()
            if subject is not None:
                condition = nodes.Comparison(ComparisonOp.EQ, subject, condition)
            self._need_word("THEN")
            branches.append((condition, self._condition()))
        node = self._condition() if self._take_word("ELSE") else NULL
        self._need_word("END")
        self._cases -= 1
        self._leave()
        for condition, value in reversed(branches):
            node = nodes.Function(FunctionName.IF, (condition, value, node))
        return node

    def _cast(self, word: str) -> Expr:
        self._enter()
        value = self._condition()
        self._need_word("AS")
        node = nodes.Cast(value, self._type(), is_try=word == "TRY_CAST")
        self._need(")")
        self._leave()
        return node

    def _type(self) -> pa.DataType:
        token = self._next()
        if token.word in _TYPES:
            return _TYPES[token.word]
        if token.word not in _DECIMALS:
            raise unexpected(self._sql, token)
        sizes = self._sizes() if self._take("(") else []
        texts = [str(size) for size in sizes] + ["10", "0"][len(sizes) :]
        precision, scale = (int(text) if text.isdecimal() else 99 for text in texts)
        if not (1 <= precision <= 38 and scale <= precision):
            self._refuse(token.start, f"there is no type DECIMAL({', '.join(texts)})")
        return pa.decimal128(precision, scale)

    def _sizes(self) -> list[Literal]:
        sizes: list[Literal] = []
        while not sizes or (len(sizes) < 2 and self._take(",")):
            token = self._token
            self._need(NUMBER_KIND)
            sizes.append(self._number(token))
        self._need(")")
        return sizes
