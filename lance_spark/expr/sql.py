"""Filters written in SQL: Spark's grammar of conditions, without subqueries, aggregates and user functions.

The grammar is Spark's `booleanExpression` (SqlBaseParser.g4), loosest first::

    OR    AND    NOT    predicates (BETWEEN, IN, LIKE, IS)    comparisons    + -    * / %    unary + -    ::type

Nothing is evaluated, and nothing is understood halfway: what the grammar below does not name is an error with its
position. (A general SQL parser is no help here: sqlglot reads `x IS NAN` as a comparison with a column `nan` and drops
the SYMMETRIC of BETWEEN and the FORMAT of CAST into attributes that are easy to overlook, and a filter that is
overlooked in part keeps the wrong rows.)

>>> str(parse("price BETWEEN 1 AND 2.50 and `a.b`.c like 'x%'"))
"price >= 1 AND price <= 2.50 AND `a.b`.c LIKE 'x%'"
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.datetime_text import check_time_zone
from lance_spark.expr.literals import FALSE, NULL, TRUE, Literal, literal
from lance_spark.expr.nodes import (
    CAST_TYPES,
    RESERVED_WORDS,
    And,
    Arithmetic,
    ArithmeticOp,
    Cast,
    Column,
    Comparison,
    ComparisonOp,
    Expr,
    Function,
    FunctionName,
    In,
    IsNan,
    IsNull,
    Like,
    Negate,
    Not,
    Or,
    StringMatch,
    StringMatchOp,
    depth,
)
from lance_spark.expr.sql_literals import INTERVAL_UNITS, TYPED_LITERALS, read_interval, read_number, read_typed
from lance_spark.expr.sql_tokens import Token, TokenKind, position, tokenize

MAX_DEPTH = 50
"""How deep parentheses, NOT, unary minus and function calls may nest in one another."""

MAX_TREE_DEPTH = 100
"""How deep the tree may be; a chain such as a + b + c nests to the left. AND, OR and IN take any number of terms."""


def parse(sql: str, *, time_zone: str = "UTC") -> Expr:
    """The filter that the text means.

    Args:
        sql: a condition, as after WHERE.
        time_zone: the session's zone, for TIMESTAMP literals that name none.

    Raises:
        InvalidInputError: the text is no condition of the supported kind; the message names construct and position.
    """
    check_time_zone(time_zone)
    return _Parser(sql, time_zone).parse()


_COMPARISONS = {op.value: op for op in ComparisonOp}
_SUMS = {"+": ArithmeticOp.ADD, "-": ArithmeticOp.SUBTRACT}
_PRODUCTS = {"*": ArithmeticOp.MULTIPLY, "/": ArithmeticOp.DIVIDE, "%": ArithmeticOp.REMAINDER}
_UNSUPPORTED_OPERATORS = ("||", "DIV", "RLIKE", "REGEXP", "SIMILAR", "COLLATE", "AT")
_TRUTH_VALUES = {"TRUE": TRUE, "FALSE": FALSE}

_TYPE_NAMES = CAST_TYPES | {
    "BYTE": pa.int8(),
    "SHORT": pa.int16(),
    "INTEGER": pa.int32(),
    "LONG": pa.int64(),
    "REAL": pa.float32(),
    "TIMESTAMP_LTZ": CAST_TYPES["TIMESTAMP"],
}
_DECIMAL_NAMES = ("DECIMAL", "DEC", "NUMERIC")

_FUNCTION_NAMES = {name.value.upper(): name for name in FunctionName} | {
    "LCASE": FunctionName.LOWER,
    "UCASE": FunctionName.UPPER,
    "CHAR_LENGTH": FunctionName.LENGTH,
    "CHARACTER_LENGTH": FunctionName.LENGTH,
    "LEN": FunctionName.LENGTH,
    "SUBSTR": FunctionName.SUBSTRING,
    "DAYOFMONTH": FunctionName.DAY,
    "IFNULL": FunctionName.COALESCE,
    "NVL": FunctionName.COALESCE,
}


class _Parser:
    """Recursive descent over the tokens; each method takes what it names and leaves `_at` behind it."""

    def __init__(self, sql: str, time_zone: str) -> None:
        self._sql = sql
        self._time_zone = time_zone
        self._tokens = tokenize(sql)
        self._at = 0
        self._depth = 0

    def parse(self) -> Expr:
        condition = self._condition()
        if self._token.kind is not TokenKind.END:
            raise self._unexpected()
        if depth(condition) > MAX_TREE_DEPTH:
            raise InvalidInputError(f"the filter chains or nests more than {MAX_TREE_DEPTH} operators in one another")
        return condition

    # Tokens

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _next(self) -> Token:
        token = self._token
        self._at += 1
        return token

    def _take(self, *words: str) -> bool:
        """Takes the words if they all follow."""
        ahead = self._tokens[self._at : self._at + len(words)]
        if [token.word for token in ahead] != list(words):
            return False
        self._at += len(words)
        return True

    def _expect(self, word: str, where: str) -> None:
        if not self._take(word):
            raise self._error(f"{where} needs {word}, got {self._shown()}")

    def _shown(self) -> str:
        token = self._token
        return token.kind.value if token.kind is TokenKind.END else repr(token.text)

    def _error(self, message: str, start: int | None = None) -> InvalidInputError:
        return InvalidInputError(
            f"{message} at {position(self._sql, self._token.start if start is None else start)} of the filter"
        )

    def _unexpected(self) -> InvalidInputError:
        if self._token.word in _UNSUPPORTED_OPERATORS:
            return self._error(f"operator {self._token.word} is not supported in a filter")
        return self._error(f"unexpected {self._shown()}")

    def _deeper(self, rule: Callable[[], Expr]) -> Expr:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"more than {MAX_DEPTH} levels of nesting")
        inner = rule()
        self._depth -= 1
        return inner

    # Conditions

    def _condition(self) -> Expr:
        return self._deeper(self._disjunction)

    def _disjunction(self) -> Expr:
        terms = [self._conjunction()]
        while self._take("OR"):
            terms.append(self._conjunction())
        return terms[0] if len(terms) == 1 else Or(tuple(terms))

    def _conjunction(self) -> Expr:
        terms = [self._negation()]
        while self._take("AND"):
            terms.append(self._negation())
        return terms[0] if len(terms) == 1 else And(tuple(terms))

    def _negation(self) -> Expr:
        if self._take("NOT"):
            return Not(self._deeper(self._negation))
        return self._predicate(self._value())

    def _predicate(self, value: Expr) -> Expr:
        if self._take("IS"):
            return self._is(value)
        negated = self._take("NOT")
        rule = _PREDICATES.get(self._token.word)
        if rule is None:
            if negated:
                raise self._unexpected()
            return value
        self._next()
        predicate = rule(self, value)
        return Not(predicate) if negated else predicate

    def _is(self, value: Expr) -> Expr:
        negated = self._take("NOT")
        if self._take("NULL") or self._take("UNKNOWN"):
            test: Expr = IsNull(value)
        elif self._token.word in _TRUTH_VALUES:
            test = Comparison(ComparisonOp.NULL_SAFE_EQ, value, _TRUTH_VALUES[self._next().word])
        elif self._take("DISTINCT", "FROM"):
            test = Comparison(ComparisonOp.NULL_SAFE_EQ, value, self._value())
            negated = not negated
        else:
            raise self._error(f"IS takes NULL, TRUE, FALSE or DISTINCT FROM, got {self._shown()}")
        return Not(test) if negated else test

    def _between(self, value: Expr) -> Expr:
        if self._token.word in ("SYMMETRIC", "ASYMMETRIC"):
            raise self._error(f"BETWEEN {self._token.word} is not supported")
        low = self._value()
        self._expect("AND", "BETWEEN")
        high = self._value()
        return And((Comparison(ComparisonOp.GE, value, low), Comparison(ComparisonOp.LE, value, high)))

    def _in(self, value: Expr) -> Expr:
        self._expect("(", "IN")
        if self._token.word in ("SELECT", "WITH"):
            raise self._error("a subquery is not supported in a filter")
        if self._token.word == ")":
            raise self._error("IN () has no values to compare with")
        return In(value, self._arguments("IN"))

    def _like(self, value: Expr) -> Expr:
        return self._pattern(value)

    def _ilike(self, value: Expr) -> Expr:
        match = self._pattern(value)
        if match.escape.isalpha():
            raise self._error("the escape of ILIKE must not be a letter")
        return Like(Function(FunctionName.LOWER, (value,)), match.pattern.lower(), match.escape)

    def _pattern(self, value: Expr) -> Like:
        start = self._token.start
        pattern = self._string("the pattern of LIKE")
        escape = self._string("the escape of LIKE") if self._take("ESCAPE") else "\\"
        try:
            return Like(value, pattern, escape)
        except InvalidInputError as error:
            raise self._error(str(error), start) from error

    def _string(self, what: str) -> str:
        if self._token.kind is not TokenKind.STRING:
            raise self._error(f"{what} must be a string constant, got {self._shown()}")
        return self._text()

    def _text(self) -> str:
        """One string, or several in a row, which are one (as in Spark)."""
        text = self._next().text
        while self._token.kind is TokenKind.STRING:
            text += self._next().text
        return text

    def _arguments(self, what: str) -> tuple[Expr, ...]:
        """Values up to the closing parenthesis; the opening one is taken already."""
        if self._take(")"):
            return ()
        values = [self._condition()]
        while self._take(","):
            values.append(self._condition())
        self._expect(")", what)
        return tuple(values)

    # Values

    def _value(self) -> Expr:
        left = self._sum()
        while self._token.word in _COMPARISONS:
            left = Comparison(_COMPARISONS[self._next().word], left, self._sum())
        return left

    def _sum(self) -> Expr:
        left = self._product()
        while self._token.word in _SUMS:
            left = Arithmetic(_SUMS[self._next().word], left, self._product())
        return left

    def _product(self) -> Expr:
        left = self._signed()
        while self._token.word in _PRODUCTS:
            left = Arithmetic(_PRODUCTS[self._next().word], left, self._signed())
        return left

    def _signed(self) -> Expr:
        if self._take("+"):
            return self._deeper(self._signed)
        if not self._take("-"):
            return self._casted()
        if self._token.kind is TokenKind.NUMBER:
            return self._with_casts(self._number(self._next(), "-"))
        return Negate(self._deeper(self._signed))

    def _casted(self) -> Expr:
        return self._with_casts(self._primary())

    def _with_casts(self, value: Expr) -> Expr:
        while self._take("::"):
            value = Cast(value, self._type())
        return value

    def _primary(self) -> Expr:
        token = self._token
        if token.kind is TokenKind.NUMBER:
            return self._number(self._next(), "")
        if token.kind is TokenKind.STRING:
            return literal(self._text())
        if token.kind is TokenKind.QUOTED_NAME:
            return self._column()
        if self._take("("):
            inner = self._condition()
            self._expect(")", "an opening parenthesis")
            return inner
        if token.kind is not TokenKind.NAME:
            raise self._unexpected()
        return self._word()

    def _word(self) -> Expr:
        """What begins with a plain word: a constant, a typed literal, a call or a column."""
        token, after = self._token, self._tokens[self._at + 1]
        if token.word in _CONSTANTS:
            self._next()
            return _CONSTANTS[token.word]
        if after.kind is TokenKind.STRING and token.word in TYPED_LITERALS:
            return self._typed_literal(self._next())
        if after.kind is TokenKind.STRING and self._take("INTERVAL"):
            return self._interval()
        if after.word == "(":
            return self._call()
        if token.word.lower() in RESERVED_WORDS:
            raise self._error(f"{token.word} is not supported here; a column of that name stands between backticks")
        return self._column()

    def _column(self) -> Expr:
        path = [self._next().text]
        while self._take("."):
            if self._token.kind not in (TokenKind.NAME, TokenKind.QUOTED_NAME):
                raise self._error(f"a name must follow the dot, got {self._shown()}")
            path.append(self._next().text)
        return Column(tuple(path))

    def _number(self, token: Token, sign: str) -> Literal:
        number = read_number(sign + token.text)
        if number is None:
            raise self._error(f"{sign}{token.text} is out of range for its type", token.start)
        return number

    def _typed_literal(self, token: Token) -> Literal:
        start, text = self._token.start, self._text()
        made = read_typed(token.word, text, self._time_zone)
        if made is None:
            raise self._error(f"{text!r} is no {token.word}", start)
        return made

    def _interval(self) -> Literal:
        start, text = self._token.start, self._text()
        unit = self._token.word.removesuffix("S")
        if unit not in INTERVAL_UNITS or self._tokens[self._at + 1].word == "TO":
            raise self._error(f"INTERVAL takes one of {', '.join(INTERVAL_UNITS)}, got {self._shown()}")
        self._next()
        made = read_interval(text, unit)
        if made is None:
            raise self._error(f"{text!r} is no number of {unit}S that a filter can hold", start)
        return made

    # Calls

    def _call(self) -> Expr:
        token = self._next()
        special = _SPECIAL_CALLS.get(token.word)
        self._expect("(", token.text)
        if special is not None:
            return special(self, token)
        if token.word in _TYPE_NAMES:
            return self._type_call(token)
        if token.word not in _FUNCTION_NAMES:
            raise self._error(f"function {token.text} is not supported in a filter", token.start)
        arguments = self._deeper_arguments(token)
        try:
            return Function(_FUNCTION_NAMES[token.word], arguments)
        except InvalidInputError as error:
            raise self._error(str(error), token.start) from error

    def _deeper_arguments(self, token: Token) -> tuple[Expr, ...]:
        if self._token.word in ("DISTINCT", "ALL", "*"):
            raise self._error(f"{token.text}({self._token.text} ...) is not supported in a filter")
        return self._arguments(token.text)

    def _one_argument(self, token: Token) -> Expr:
        arguments = self._deeper_arguments(token)
        if len(arguments) != 1:
            raise self._error(f"{token.text} takes one argument, got {len(arguments)}", token.start)
        return arguments[0]

    def _type_call(self, token: Token) -> Expr:
        """`double(x)`, another way to write CAST; of 'NaN' and the infinities it is how their literals are written."""
        value = self._one_argument(token)
        type_ = _TYPE_NAMES[token.word]
        if pa.types.is_floating(type_) and isinstance(value, Literal) and value.value in _SPECIAL_FLOATS:
            return Literal(float(str(value.value)), type_)
        return Cast(value, type_)

    def _cast(self, token: Token) -> Expr:
        value = self._condition()
        self._expect("AS", token.word)
        type_ = self._type()
        self._expect(")", token.word)
        return Cast(value, type_, is_try=token.word == "TRY_CAST")

    def _type(self) -> pa.DataType:
        token = self._next()
        if token.word in _DECIMAL_NAMES:
            return self._decimal_type(token)
        if token.word not in _TYPE_NAMES or self._token.word in ("(", "<"):
            raise self._error(f"CAST to {token.text or token.kind.value} is not supported in a filter", token.start)
        return _TYPE_NAMES[token.word]

    def _decimal_type(self, token: Token) -> pa.DataType:
        precision, scale = 10, 0
        if self._take("("):
            precision = self._whole_number()
            scale = self._whole_number() if self._take(",") else 0
            self._expect(")", token.word)
        if not (1 <= precision <= 38 and scale <= precision):
            raise self._error(f"there is no type DECIMAL({precision}, {scale})", token.start)
        return pa.decimal128(precision, scale)

    def _whole_number(self) -> int:
        if not self._token.text.isdecimal():
            raise self._unexpected()
        return int(self._next().text)

    def _substring(self, token: Token) -> Expr:
        value = self._condition()
        if not self._take("FROM"):
            rest = self._arguments(token.text) if self._take(",") else ()
            if not 1 <= len(rest) <= 2:
                raise self._error(f"{token.text} takes 2 to 3 arguments", token.start)
            return Function(FunctionName.SUBSTRING, (value, *rest))
        arguments = [value, self._condition()]
        if self._take("FOR"):
            arguments.append(self._condition())
        self._expect(")", token.text)
        return Function(FunctionName.SUBSTRING, tuple(arguments))

    def _isnan(self, token: Token) -> Expr:
        return IsNan(self._one_argument(token))

    def _isnull(self, token: Token) -> Expr:
        return IsNull(self._one_argument(token))

    def _isnotnull(self, token: Token) -> Expr:
        return Not(IsNull(self._one_argument(token)))

    def _mod(self, token: Token) -> Expr:
        arguments = self._deeper_arguments(token)
        if len(arguments) != 2:
            raise self._error(f"{token.text} takes two arguments, got {len(arguments)}", token.start)
        return Arithmetic(ArithmeticOp.REMAINDER, *arguments)

    def _string_match(self, token: Token) -> Expr:
        value = self._condition()
        self._expect(",", token.text)
        text = self._string(f"what {token.text} looks for")
        self._expect(")", token.text)
        return StringMatch(StringMatchOp(token.text.lower()), value, text)


_SPECIAL_FLOATS = ("NaN", "Infinity", "-Infinity")
_CONSTANTS: dict[str, Literal] = {**_TRUTH_VALUES, "NULL": NULL}

_PREDICATES: dict[str, Callable[[_Parser, Expr], Expr]] = {
    "BETWEEN": _Parser._between,
    "IN": _Parser._in,
    "LIKE": _Parser._like,
    "ILIKE": _Parser._ilike,
}
_SPECIAL_CALLS: dict[str, Callable[[_Parser, Token], Expr]] = {
    "CAST": _Parser._cast,
    "TRY_CAST": _Parser._cast,
    "SUBSTRING": _Parser._substring,
    "SUBSTR": _Parser._substring,
    "ISNAN": _Parser._isnan,
    "ISNULL": _Parser._isnull,
    "ISNOTNULL": _Parser._isnotnull,
    "MOD": _Parser._mod,
    "STARTSWITH": _Parser._string_match,
    "ENDSWITH": _Parser._string_match,
    "CONTAINS": _Parser._string_match,
}
