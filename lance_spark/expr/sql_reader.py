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
from typing import Any, ClassVar

import pyarrow as pa
from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError

from lance_spark.errors import InvalidInputError
from lance_spark.expr import nodes
from lance_spark.expr.geo.nodes import GEO_CALLS
from lance_spark.expr.json_path.nodes import JSON_CALLS
from lance_spark.expr.json_path.path_tests import JSON_TESTS
from lance_spark.expr.literals import Literal, literal
from lance_spark.expr.nodes import MAX_DEPTH, MAX_TREE_DEPTH, ArithmeticOp, ComparisonOp, Expr, FunctionName
from lance_spark.expr.sql_arrays import ARRAY_CALLS
from lance_spark.expr.sql_literals import (
    INTERVAL_UNITS,
    NUMBER,
    STRING,
    TYPED_LITERALS,
    read_interval,
    read_number,
    read_string,
    read_typed,
)
from lance_spark.expr.sql_text import TEXT_CALLS

# Tokens

_WORDS = ("AND", "OR", "NOT", "IS", "IN", "BETWEEN", "LIKE", "ILIKE", "NULL", "TRUE", "FALSE")
_SIGNS = ("==", "<>", "!=", "<=", ">=", "<=>", "::", "||")
_KEYWORDS = {word: Spark.Tokenizer.KEYWORDS[word] for word in (*_WORDS, *_SIGNS)} | {
    # `::` gets another node than CAST, one that sqlglot's Spark dialect does not use otherwise.
    "::": TokenType.DOTCOLON
}
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
_TEXTS = frozenset({*_NAMES, TokenType.NUMBER, TokenType.STRING})
_KINDS = frozenset(_KEYWORDS.values()) | {Spark.Tokenizer.SINGLE_TOKENS[sign] for sign in "(),.+-*/%=<>!"}
_PREFIXES = (TokenType.NOT, TokenType.DASH, TokenType.PLUS)

_CAST_WORDS = {*nodes.CAST_TYPES, "DECIMAL", "DEC", "NUMERIC", "BYTE", "SHORT", "INTEGER", "LONG", "REAL"}
_CAST_TOKENS = {word: Spark.Tokenizer.KEYWORDS[word] for word in _CAST_WORDS}
_VALUE_ENDS = _TEXTS | {TokenType.R_PAREN, TokenType.NULL, TokenType.TRUE, TokenType.FALSE, *_CAST_TOKENS.values()}

_BLANK = re.compile(r"(?:\s|--(?:[^\r\n]*[^\r\n\\])?(?=[\r\n]|\Z)|/\*(?:[^*]|\*(?!/))*\*/)*")
_NAME = re.compile(r"[^\W\d]\w*")
_QUOTED_NAME = re.compile(r"`(?:[^`]|``)+`")
_OPERATORS = {"DIV", "RLIKE", "REGEXP", "SIMILAR", "COLLATE", "AT", *"&|^~"}
_UNSUPPORTED = {
    **{word: word.upper() for word in ("case", "exists", "select", "with")},
    **{"[": "an element of an array or map", "?": "a parameter", ":": "a parameter or path with :"},
}


class _Tokenizer(Spark.Tokenizer):
    KEYWORDS: ClassVar = _KEYWORDS
    STRING_ESCAPES: ClassVar = ["\\", "'", '"']
    NUMERIC_LITERALS: ClassVar = {}
    HEX_STRINGS: ClassVar = []
    COMMANDS: ClassVar = set()


@dataclass(slots=True)
class _Token:
    """A token; its text is the value of a string or quoted name.

    `kept` is a keyword of the grammar that is passed to sqlglot as text; `type` and `unit` are the keywords of a
    literal such as DATE '2024-01-01' or INTERVAL '5' DAY.
    """

    kind: TokenType
    text: str
    start: int
    end: int
    kept: str = ""
    type: str = ""
    unit: str = ""

    @property
    def word(self) -> str:
        return self.text.upper() if self.kind is TokenType.VAR else ""


def _sent(number: int, token: _Token) -> str:
    """What sqlglot sees of a token: its kind, or a text that is not an SQL word."""
    if token.kind not in _TEXTS:
        return token.kind.name
    return token.kept or f"{'n' if token.kind in _NAMES else 0}{number}"


def _at(sql: str, start: int) -> str:
    line = sql.count("\n", 0, start)
    return f"at line {line + 1}, column {start - sql.rfind(chr(10), 0, start)} of the filter"


def _unexpected(sql: str, start: int, end: int) -> InvalidInputError:
    text = sql[start:end]
    what = f"operator {text.upper()}" if text.upper() in _OPERATORS else _UNSUPPORTED.get(text.lower())
    message = f"unexpected {text!r}" if text else "unexpected end of the filter"
    return InvalidInputError(f"{f'{what} is not supported in a filter' if what else message} {_at(sql, start)}")


def _tokens(sql: str) -> list[_Token]:
    try:
        found = _Tokenizer(dialect="spark").tokenize(sql)
    except TokenError as error:
        quote = re.search(r"Missing (.) from \d+:(\d+)", f"{error.__cause__} {error}")
        what = f"unclosed {quote[1]} {_at(sql, int(quote[2]))}" if quote else "unclosed quote or comment in the filter"
        raise InvalidInputError(what) from error
    made: list[_Token] = []
    opened: list[str] = []
    end = 0
    for start, stop, kind in [
        *((token.start, token.end + 1, token.token_type) for token in found),
        (len(sql), 0, None),
    ]:
        # Between tokens only Spark's whitespace and comments are allowed, and nothing else that sqlglot skips.
        if not _BLANK.fullmatch(sql, end, start):
            raise InvalidInputError(f"unclosed comment, or one that Spark does not know, {_at(sql, end)}")
        if kind is not None:
            for name, text in _parts(sql, start, stop, kind, opened, made):
                _add(made, sql, _Token(name, text, start, stop))
        end = stop
    _check_nesting(sql, made)
    return made


def _parts(
    sql: str, start: int, end: int, kind: TokenType, opened: list[str], made: list[_Token]
) -> list[tuple[TokenType, str]]:
    """Kind and text of a token; a list in brackets is ``array(...)``.

    Args:
        opened: the brackets and parentheses around the token; those of this token are added or removed.
        made: the tokens before it. After a value a bracket is that of an element, which is refused.
    """
    if kind is TokenType.L_BRACKET and not (made and made[-1].kind in _VALUE_ENDS):
        opened.append("[")
        return [(TokenType.VAR, "array"), (TokenType.L_PAREN, "(")]
    if kind is TokenType.R_BRACKET and opened[-1:] == ["["]:
        opened.pop()
        return [(TokenType.R_PAREN, ")")]
    if kind is TokenType.L_PAREN:
        opened.append("(")
    elif kind is TokenType.R_PAREN and opened and opened.pop() == "[":
        raise _unexpected(sql, start, end)
    return [_kind_and_text(sql, start, end, kind)]


def _kind_and_text(sql: str, start: int, end: int, kind: TokenType) -> tuple[TokenType, str]:
    raw = sql[start:end]
    if kind in (TokenType.STRING, TokenType.RAW_STRING) and STRING.fullmatch(raw):
        return TokenType.STRING, read_string(raw)
    if kind is TokenType.IDENTIFIER and _QUOTED_NAME.fullmatch(raw):
        return kind, raw[1:-1].replace("``", "`")
    if NUMBER.fullmatch(raw):
        return TokenType.NUMBER, raw
    if kind in _KINDS or (kind is TokenType.VAR and _NAME.fullmatch(raw)):
        return kind, raw
    raise _unexpected(sql, start, end)


def _add(tokens: list[_Token], sql: str, token: _Token) -> None:
    """Appends a token. Adjacent literals and strings are merged; a word is a keyword where it can be nothing else."""
    last = tokens[-1] if tokens else _Token(TokenType.COMMA, "", -1, -1)
    before, kind, word, joined = last.kind, token.kind, token.word, last.end == token.start
    if (joined and before is TokenType.NUMBER and kind in _TEXTS) or (before, kind) == (TokenType.NOT, TokenType.IS):
        # sqlglot reads 0x1F as two tokens, and accepts `a NOT IS NULL`.
        raise _unexpected(sql, last.start, token.end)
    if kind is TokenType.STRING and (last.word in TYPED_LITERALS or last.word == "INTERVAL"):
        last.kind, last.text, last.end, last.type = kind, token.text, token.end, last.word
        return
    if word and last.type == "INTERVAL" and not last.unit:
        last.end, last.unit = token.end, word
        return
    if (before is kind is TokenType.STRING and not last.unit) or (
        joined and (before, kind) == (TokenType.DOT, TokenType.NUMBER)
    ):
        last.kind, last.text, last.end = kind, last.text + token.text, token.end
        return
    if last.word in ("CAST", "TRY_CAST") and kind is TokenType.L_PAREN:
        last.kept = last.word
    elif word == "AS" and before in _VALUE_ENDS:
        token.kind = TokenType.ALIAS
    elif word == "ESCAPE" and before is TokenType.STRING:
        token.kind = TokenType.ESCAPE
    elif word and before in (TokenType.ALIAS, TokenType.DOTCOLON):
        token.kind = _CAST_TOKENS.get(word, kind)
    elif word == "FROM" and last.word == "DISTINCT" and len(tokens) > 2:
        if tokens[-2].kind is TokenType.IS:
            last.kept, token.kept = "DISTINCT", "FROM"
        elif (tokens[-3].kind, tokens[-2].kind) == (TokenType.IS, TokenType.NOT):
            token = _Token(TokenType.NULLSAFE_EQ, "", tokens[-3].start, token.end)
            del tokens[-3:]
    tokens.append(token)


def _check_nesting(sql: str, tokens: list[_Token]) -> None:
    """Checks that parentheses match and do not nest too deep. FROM and FOR replace the commas of substring."""
    levels: list[tuple[int, list[str]]] = []
    prefixes = 0
    for before, token in zip([_Token(TokenType.COMMA, "", 0, 0), *tokens], tokens, strict=False):
        if levels and token.word in levels[-1][1][:1] and before.kind in _VALUE_ENDS and not token.kept:
            token.kind = TokenType.COMMA
        if token.kind is TokenType.L_PAREN:
            levels.append((prefixes + 1, ["FROM", "FOR"] if before.word in ("SUBSTRING", "SUBSTR") else []))
        elif token.kind is TokenType.COMMA and levels:
            del levels[-1][1][:1]
        elif token.kind is TokenType.R_PAREN:
            if not levels:
                raise _unexpected(sql, token.start, token.end)
            levels.pop()
        prefixes = prefixes + 1 if token.kind in _PREFIXES else 0
        if sum(level for level, _ in levels) + prefixes > MAX_DEPTH:
            raise InvalidInputError(f"more than {MAX_DEPTH} levels of nesting {_at(sql, token.start)}")


# Precedence of nodes in Spark's grammar, lowest first

_OR, _AND, _NOT, _PREDICATE, _COMPARISON, _SUM, _PRODUCT, _SIGNED, _TERM = range(9)


_LEAVES = (exp.Identifier, exp.Literal, exp.Var, exp.Anonymous)


class Reader:
    """Translates a filter from text to our tree; counts the tokens that the tree accounts for."""

    def __init__(self, sql: str, time_zone: str) -> None:
        self.time_zone = time_zone
        self._sql = sql
        self._tokens = _tokens(sql)
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
            Token(TokenType.VAR if token.kind in _NAMES else token.kind, _sent(number, token), number, 0)
            for number, token in enumerate(self._tokens)
        ]
        try:
            (node,) = Spark.Parser(dialect="spark").parse_into(exp.Condition, given, self._sql)
        except ParseError as error:
            raise self._where_parsing_ended(error) from error
        if node is None:
            raise _unexpected(self._sql, len(self._sql), len(self._sql))
        filter_ = self.expr(node)
        written = Counter(token.text for token in given)
        for token, sent in zip(self._tokens, given, strict=True):
            if self._taken[sent.text] < written[sent.text]:
                raise _unexpected(self._sql, token.start, token.end)
        for missing in self._taken - written:
            # sqlglot adds parentheses where its tree is grouped differently than the text would be.
            what = "a predicate beside a comparison needs parentheses, as in (a = b) IS NULL"
            raise InvalidInputError(what if "PAREN" in missing else f"{missing} is missing in the filter")
        return filter_

    def _where_parsing_ended(self, error: ParseError) -> InvalidInputError:
        errors = error.errors[0]
        number, what = min(errors["line"] or 0, len(self._tokens) - 1), str(errors["description"])
        for token in self._tokens[: number + 1]:
            if token.word.lower() in _UNSUPPORTED:
                return _unexpected(self._sql, token.start, token.end)
        if number == len(self._tokens) - 1 and not what.startswith("Invalid expression"):
            return _unexpected(self._sql, len(self._sql), len(self._sql))
        return _unexpected(self._sql, self._tokens[number].start, self._tokens[number].end)

    def refused(self, node: exp.Expr, message: str) -> InvalidInputError:
        """The error `message`, in which {} is the node's text, with the node's position."""
        leaves = [below.this for below in node.walk() if isinstance(below, _LEAVES) and self._number(below.this) >= 0]
        tokens = [self._tokens[self._number(leaf)] for leaf in leaves]
        start, end = min((token.start for token in tokens), default=0), max((token.end for token in tokens), default=0)
        text = self._sql[start:end] or type(node).__name__
        return InvalidInputError(f"{message.replace('{}', text[:80])} {_at(self._sql, start)}")

    def _number(self, leaf: Any) -> int:
        number = int(leaf[1:]) if isinstance(leaf, str) and re.fullmatch("[0nN][0-9]+", leaf) else -1
        return number if number < len(self._tokens) else -1

    def leaf(self, leaf: Any) -> _Token:
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
    return reader.expr(node.this, _PREDICATE, escape=reader.string(node.expression, "the escape of LIKE"))


def _like(reader: Reader, node: exp.Like | exp.ILike, escape: str = "\\") -> Expr:
    value, pattern = reader.expr(node.this, _COMPARISON), reader.string(node.expression, "the pattern of LIKE")
    if isinstance(node, exp.Like):
        return nodes.Like(value, pattern, escape)
    if escape.isalpha():
        raise reader.refused(node, "the escape of ILIKE must not be a letter")
    nodes.like_tokens(pattern, escape)
    return nodes.Like(nodes.Function(FunctionName.LOWER, (value,)), pattern.lower(), escape)


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
        made = read_interval(token.text, unit) if unit in INTERVAL_UNITS else None
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
    if tokens[0].word.lower() in nodes.RESERVED_WORDS:
        raise reader.refused(node, "{} is not supported here; a column of that name stands between backticks")
    reader.take("DOT " * (len(tokens) - 1))
    return nodes.Column(tuple(token.text for token in tokens))


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
    count, call = _CALLS.get(token.word.lower(), (0, None))
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
    exp.Anonymous: _Rule(_TERM, "", "this expressions", _call),
}


def _string_match(name: str, values: tuple[Expr, ...]) -> Expr:
    value, text = values
    if not (isinstance(text, Literal) and isinstance(text.value, str)):
        raise InvalidInputError(f"what {name} looks for must be a string constant, got {text}")
    return nodes.StringMatch(nodes.StringMatchOp(name), value, text.value)


def _type_call(name: str, values: tuple[Expr, ...]) -> Expr:
    """`double(x)`, an alternative to CAST; with 'NaN' and the infinities it is their literal."""
    (value,), type_ = values, nodes.CAST_TYPES[name.upper()]
    if pa.types.is_floating(type_) and isinstance(value, Literal) and value.value in ("NaN", "Infinity", "-Infinity"):
        return Literal(float(str(value.value)), type_)
    return nodes.Cast(value, type_)


_SYNONYMS = {
    "lcase": "lower",
    "ucase": "upper",
    "substr": "substring",
    "dayofmonth": "day",
    **dict.fromkeys(("char_length", "character_length", "len"), "length"),
    **dict.fromkeys(("ifnull", "nvl"), "coalesce"),
}


def _function(name: str, values: tuple[Expr, ...]) -> Expr:
    return nodes.Function(FunctionName(_SYNONYMS.get(name, name)), values)


_CALLS: dict[str, tuple[int | None, Callable[[str, tuple[Expr, ...]], Expr]]] = {
    **dict.fromkeys([*(name.value for name in FunctionName), *_SYNONYMS], (None, _function)),
    **dict.fromkeys((name.lower() for name in nodes.CAST_TYPES), (1, _type_call)),
    **dict.fromkeys((op.value for op in nodes.StringMatchOp), (2, _string_match)),
    # As the reference library spells them.
    "starts_with": (2, lambda _, values: _string_match("startswith", values)),
    "ends_with": (2, lambda _, values: _string_match("endswith", values)),
    "isnan": (1, lambda _, values: nodes.IsNan(*values)),
    "isnull": (1, lambda _, values: nodes.IsNull(*values)),
    "isnotnull": (1, lambda _, values: nodes.Not(nodes.IsNull(*values))),
    **ARRAY_CALLS,
    **GEO_CALLS,
    **JSON_CALLS,
    **JSON_TESTS,
    **TEXT_CALLS,
    "mod": (2, lambda _, values: nodes.Arithmetic(ArithmeticOp.REMAINDER, *values)),
}
"""The number of arguments, unless the node checks it, and the constructor of the node from name and arguments."""
