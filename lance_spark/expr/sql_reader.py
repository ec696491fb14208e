"""How `sql.parse` reads a filter: sqlglot parses it, and its tree is translated into ours by a whitelist.

sqlglot accepts more than a filter may say, and keeps some of it where it is easily lost: `x IS NAN` is a comparison
with a column `nan`, SYMMETRIC a flag of BETWEEN, the length of VARCHAR gone, the AND of BETWEEN optional. Hence:

- words: sqlglot's Spark parser knows the keywords of this grammar only, and calls keep the names they have in the text;
- nodes: each class of node has a rule, which names the arguments it may carry; all others are refused;
- tokens: a rule accounts for the tokens that its node is made of, and together they must be exactly the text's;
- operators: an operand binds as tightly as Spark's grammar (SqlBaseParser.g4) asks. Where sqlglot would group
  otherwise, as in `a = b IN (c)`, the text needs parentheses.
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
from lance_spark.expr.literals import NULL, Literal, literal
from lance_spark.expr.nodes import ArithmeticOp, ComparisonOp, Expr, FunctionName
from lance_spark.expr.sql import MAX_DEPTH, MAX_TREE_DEPTH
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

# Tokens

_WORDS = ("AND", "OR", "NOT", "IS", "IN", "BETWEEN", "LIKE", "ILIKE", "ESCAPE", "NULL", "TRUE", "FALSE")
_SIGNS = ("==", "<>", "!=", "<=", ">=", "<=>", "::")
_KEYWORDS = {word: Spark.Tokenizer.KEYWORDS[word] for word in (*_WORDS, *_SIGNS)}
_TEXTS = frozenset({TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING})
_KINDS = frozenset(_KEYWORDS.values()) | {Spark.Tokenizer.SINGLE_TOKENS[sign] for sign in "(),.+-*/%=<>!"}
_VALUE_ENDS = _TEXTS | {TokenType.R_PAREN, TokenType.NULL, TokenType.TRUE, TokenType.FALSE}
_PREFIXES = (TokenType.NOT, TokenType.DASH, TokenType.PLUS)

_CAST_WORDS = {*nodes.CAST_TYPES, "DECIMAL", "DEC", "NUMERIC", "BYTE", "SHORT", "INTEGER", "LONG", "REAL"}
_CAST_TOKENS = {word: Spark.Tokenizer.KEYWORDS[word] for word in _CAST_WORDS}
_LITERAL_TOKENS = {word: Spark.Tokenizer.KEYWORDS.get(word, TokenType.VARBINARY) for word in TYPED_LITERALS}
_LITERAL_WORDS = {token.name: word for word, token in _LITERAL_TOKENS.items()}

_BLANK = re.compile(r"(?:\s|--(?:[^\r\n]*[^\r\n\\])?(?=[\r\n]|\Z)|/\*(?:[^*]|\*(?!/))*\*/)*")
_NAME = re.compile(r"[^\W\d]\w*")
_QUOTED_NAME = re.compile(r"`(?:[^`]|``)+`")
_OPERATORS = {"DIV", "RLIKE", "REGEXP", "SIMILAR", "COLLATE", "AT", *"&|^~"}
_UNSUPPORTED = {
    **{word: word.upper() for word in ("all", "case", "distinct", "exists", "select", "with")},
    **{"[": "an element of an array or map", "?": "a parameter", ":": "a parameter or path with :"},
}


class _Tokenizer(Spark.Tokenizer):
    KEYWORDS: ClassVar = _KEYWORDS
    STRING_ESCAPES: ClassVar = ["\\", "'", '"']
    NUMERIC_LITERALS: ClassVar[dict[Any, Any]] = {}
    HEX_STRINGS: ClassVar = []
    COMMANDS: ClassVar = set()


def _at(sql: str, start: int) -> str:
    line = sql.count("\n", 0, start)
    return f"at line {line + 1}, column {start - sql.rfind(chr(10), 0, start)} of the filter"


def _unexpected(sql: str, start: int, end: int) -> InvalidInputError:
    text = sql[start:end]
    what = f"operator {text.upper()}" if text.upper() in _OPERATORS else _UNSUPPORTED.get(text.lower())
    message = (
        f"{what} is not supported in a filter"
        if what
        else f"unexpected {text!r}"
        if text
        else "unexpected end of the filter"
    )
    return InvalidInputError(f"{message} {_at(sql, start)}")


def _tokens(sql: str) -> list[Token]:
    """sqlglot's tokens, their texts read by Spark's rules; `line` is the token's number, by which errors find it."""
    try:
        found = _Tokenizer(dialect="spark").tokenize(sql)
    except TokenError as error:
        quote = re.search(r"Missing (.) from \d+:(\d+)", f"{error.__cause__} {error}")
        what = f"unclosed {quote[1]} {_at(sql, int(quote[2]))}" if quote else "unclosed comment"
        raise InvalidInputError(what) from error
    made: list[Token] = []
    end = 0
    for token in [*found, Token(TokenType.SEMICOLON, "", start=len(sql))]:
        # Spaces and comments stand between tokens, as Spark knows them, and nothing else that sqlglot skips.
        if not _BLANK.fullmatch(sql, end, token.start):
            raise InvalidInputError(f"unclosed comment, or one that Spark does not know, {_at(sql, end)}")
        end = token.end + 1
        if token.start < len(sql):
            _add(made, sql, Token(*_kind_and_text(sql, token), line=len(made), start=token.start, end=token.end))
    _check_nesting(sql, made)
    return made


def _kind_and_text(sql: str, token: Token) -> tuple[TokenType, str]:
    kind, raw = token.token_type, sql[token.start : token.end + 1]
    if kind in (TokenType.STRING, TokenType.RAW_STRING) and STRING.fullmatch(raw):
        return TokenType.STRING, read_string(raw)
    if kind is TokenType.IDENTIFIER and _QUOTED_NAME.fullmatch(raw):
        return kind, raw[1:-1].replace("``", "`")
    if kind in (TokenType.VAR, TokenType.NUMBER) and NUMBER.fullmatch(raw):
        return TokenType.NUMBER, raw
    if kind in _KINDS or (kind is TokenType.VAR and _NAME.fullmatch(raw)):
        return kind, raw
    raise _unexpected(sql, token.start, token.end + 1)


def _add(tokens: list[Token], sql: str, token: Token) -> None:
    """Appends a token. Strings in a row are one, `.5` is one, and words are types where they can be nothing else."""
    last = tokens[-1] if tokens else Token(TokenType.COMMA, "", end=-2)
    before, kind, word = last.token_type, token.token_type, token.text.upper()
    joined = last.end + 1 == token.start
    if before is kind is TokenType.STRING or (joined and (before, kind) == (TokenType.DOT, TokenType.NUMBER)):
        last.token_type, last.text, last.end = kind, last.text + token.text, token.end
        return
    if joined and before is TokenType.NUMBER and kind in _TEXTS:
        raise _unexpected(sql, last.start, token.end + 1)
    if before is TokenType.VAR and kind is TokenType.STRING:
        known = {**_LITERAL_TOKENS, "INTERVAL": TokenType.INTERVAL}
        last.token_type = known.get(last.text.upper(), before)
    elif kind is TokenType.VAR and word == "AS" and before in _VALUE_ENDS:
        token.token_type = TokenType.ALIAS
    elif kind is TokenType.VAR and before in (TokenType.ALIAS, TokenType.DCOLON):
        token.token_type = _CAST_TOKENS.get(word, kind)
    tokens.append(token)


def _check_nesting(sql: str, tokens: list[Token]) -> None:
    levels: list[int] = []
    prefixes = 0
    for token in tokens:
        if token.token_type is TokenType.L_PAREN:
            levels.append(prefixes + 1)
        elif token.token_type is TokenType.R_PAREN and not levels:
            raise _unexpected(sql, token.start, token.end + 1)
        elif token.token_type is TokenType.R_PAREN:
            levels.pop()
        prefixes = prefixes + 1 if token.token_type in _PREFIXES else 0
        if sum(levels) + prefixes > MAX_DEPTH:
            raise InvalidInputError(f"more than {MAX_DEPTH} levels of nesting {_at(sql, token.start)}")


def _key(kind: TokenType | str, text: str = "") -> str:
    """What is counted of a token: its kind, and its text where that says more."""
    name = kind if isinstance(kind, str) else kind.name
    return f"{name} {text.upper() if name == 'VAR' else text}" if TokenType[name] in _TEXTS else name


# Grammar


class _NullSafe(exp.EQ):
    """`<=>`; sqlglot's own node for it is also that of IS NOT DISTINCT FROM, which binds otherwise."""


class _ColonCast(exp.Cast):
    """`value::type`, which sqlglot makes a CAST."""


class _Plus(exp.Neg):
    """`+value`, which sqlglot drops."""


def _substring(parser: Any, name: str) -> exp.Anonymous:
    """`substring(a, 2, 3)` or `substring(a FROM 2 FOR 3)`; elsewhere FROM and FOR may be columns."""
    values = parser._parse_csv(parser._parse_disjunction)
    words = []
    for count, word in enumerate(("FROM", "FOR"), start=1):
        if len(values) == count and parser._match_text_seq(word):
            values.append(parser._parse_disjunction())
            words.append(word)
    call = exp.Anonymous(this=name, expressions=values)
    call.meta["words"] = words
    return call


class _Parser(Spark.Parser):  # type: ignore[misc,valid-type]
    # All comparisons bind alike in Spark. Functions stay what is written: sqlglot knows hundreds by other names.
    EQUALITY: ClassVar = Spark.Parser.EQUALITY | Spark.Parser.COMPARISON | {TokenType.NULLSAFE_EQ: _NullSafe}
    COMPARISON: ClassVar[dict[Any, Any]] = {}
    RANGE_PARSERS: ClassVar = {
        TokenType[word]: Spark.Parser.RANGE_PARSERS[TokenType[word]]
        for word in ("IS", "IN", "BETWEEN", "LIKE", "ILIKE")
    }
    UNARY_PARSERS: ClassVar = {
        **{kind: Spark.Parser.UNARY_PARSERS[kind] for kind in (TokenType.NOT, TokenType.DASH)},
        TokenType.PLUS: lambda self: self.validate_expression(_Plus(this=self._parse_unary())),
    }
    COLUMN_OPERATORS: ClassVar = {
        TokenType.DOT: None,
        TokenType.DCOLON: lambda self, this, to: _ColonCast(this=this, to=to),
    }
    PLACEHOLDER_PARSERS: ClassVar[dict[Any, Any]] = {}
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[Any, Any]] = {}
    FUNCTIONS: ClassVar[dict[Any, Any]] = {}
    FUNCTION_PARSERS: ClassVar = {
        **{name: Spark.Parser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST")},
        "SUBSTRING": lambda self: _substring(self, "SUBSTRING"),
        "SUBSTR": lambda self: _substring(self, "SUBSTR"),
    }


# How tightly nodes bind in Spark's grammar, loosest first

_OR, _AND, _NOT, _PREDICATE, _COMPARISON, _SUM, _PRODUCT, _SIGNED, _TERM = range(9)


class Reader:
    """A filter on its way from text to our tree; counts the tokens that the tree accounts for."""

    def __init__(self, sql: str, time_zone: str) -> None:
        self.time_zone = time_zone
        self._sql = sql
        self._tokens = _tokens(sql)
        self._taken: Counter[str] = Counter()
        self._depth = 0

    def read(self) -> Expr:
        """The filter.

        Raises:
            InvalidInputError: the text is no filter.
            RecursionError: it nests too deep.
        """
        try:
            (node,) = _Parser(dialect="spark").parse_into(exp.Condition, self._tokens, self._sql)
        except ParseError as error:
            raise self._where_parsing_ended(error) from error
        if node is None:
            raise _unexpected(self._sql, len(self._sql), len(self._sql))
        filter_ = self.expr(node)
        written = Counter(_key(token.token_type, token.text) for token in self._tokens)
        for token in self._tokens:
            if self._taken[key := _key(token.token_type, token.text)] < written[key]:
                raise _unexpected(self._sql, token.start, token.end + 1)
        for missing in self._taken - written:
            # sqlglot adds parentheses where its tree means others than the text would.
            what = "a predicate beside a comparison needs parentheses, as in (a = b) IS NULL"
            raise InvalidInputError(what if "PAREN" in missing else f"{missing} is missing in the filter")
        return filter_

    def _where_parsing_ended(self, error: ParseError) -> InvalidInputError:
        number, what = error.errors[0]["line"] or 0, str(error.errors[0]["description"])
        for token in self._tokens[: number + 1]:
            if token.token_type is TokenType.VAR and token.text.lower() in _UNSUPPORTED:
                return _unexpected(self._sql, token.start, token.end + 1)
        if number >= len(self._tokens) - 1 and not what.startswith("Invalid expression"):
            return _unexpected(self._sql, len(self._sql), len(self._sql))
        return _unexpected(self._sql, self._tokens[number].start, self._tokens[number].end + 1)

    def refused(self, node: exp.Expr, message: str) -> InvalidInputError:
        """The error `message`, in which {} is the node's text, with the node's position."""
        spans = [(below.meta["start"], below.meta["end"] + 1) for below in node.walk() if "start" in below.meta]
        start, end = min(spans, default=(0, 0))[0], max((end for _, end in spans), default=0)
        text = self._sql[start:end] or type(node).__name__
        return InvalidInputError(f"{message.replace('{}', text[:80])} {_at(self._sql, start)}")

    def take(self, kind: TokenType | str, text: str = "", count: int = 1) -> None:
        """Accounts for tokens of the kind, with this text."""
        self._taken[_key(kind, text)] += count

    def take_list(self, values: int) -> None:
        """Accounts for parentheses and the commas between so many values."""
        self._taken.update({"L_PAREN": 1, "R_PAREN": 1, "COMMA": max(values - 1, 0)})

    def expr(self, node: Any, least: int = _OR, **how: Any) -> Expr:
        """Our tree for sqlglot's, which must bind at least so tightly."""
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
        """The node's rule, if such a node may stand here; accounts for the node's own tokens."""
        rule = _RULES.get(type(node))
        more = {name for name, value in node.args.items() if value} - set(rule.arguments.split() if rule else ())
        if rule is None or more:
            raise self.refused(
                node, f"{{}} ({type(node).__name__} of {', '.join(sorted(more))}) is not supported in a filter"
            )
        if rule.level < least:
            raise self.refused(node, "parentheses are needed around {}")
        self._taken.update(rule.tokens.split())
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
    constant = reader.expr(what)
    if constant == NULL or (str(constant).upper() == "UNKNOWN" and not what.this.quoted):
        return nodes.IsNull(value)
    if isinstance(what, exp.Boolean):
        return nodes.Comparison(ComparisonOp.NULL_SAFE_EQ, value, constant)
    raise reader.refused(what, "IS takes NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM, got {}")


def _is_distinct(reader: Reader, node: exp.NullSafeEQ | exp.NullSafeNEQ) -> Expr:
    reader.take("VAR", "DISTINCT")
    reader.take("VAR", "FROM")
    sides = (reader.expr(side, _COMPARISON) for side in (node.this, node.expression))
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

    # `safe` tells what a division by zero gave in Spark before its ANSI mode.
    return _Rule(level, token, "this expression safe", read)


def _signed(reader: Reader, node: exp.Neg) -> Expr:
    number = node.this
    while type(number) is _ColonCast:
        number = number.this
    if isinstance(number, exp.Literal) and not number.is_string:
        # The sign belongs to the number, as in Spark: -9223372036854775808L is one, and -1::string is (-1)::string.
        number.meta["sign"] = "-"
        return reader.expr(node.this)
    return nodes.Negate(reader.expr(node.this, _SIGNED))


def _constant(reader: Reader, node: exp.Null | exp.Boolean) -> Expr:
    made = literal(node.args.get("this"))
    reader.take(made.to_sql())
    return made


def _literal(reader: Reader, node: exp.Literal) -> Expr:
    reader.take("STRING" if node.is_string else "NUMBER", node.this)
    made = literal(node.this) if node.is_string else read_number(node.meta.get("sign", "") + node.this)
    if made is None:
        raise reader.refused(node, "{} is out of range for its type")
    return made


def _column(reader: Reader, node: exp.Column | exp.Dot) -> Expr:
    names: list[Any] = []
    while isinstance(node, exp.Dot):
        names.append(node.expression)
        node = node.this
    # sqlglot takes the first four names of a path for catalog, schema, table and column.
    names += [node.args[part] for part in ("this", "table", "db", "catalog") if node.args.get(part)]
    if type(node) is not exp.Column or not all(type(name) is exp.Identifier for name in names):
        raise reader.refused(node, "{} is not supported in a filter: a path has names only")
    if names[-1].this.lower() in nodes.RESERVED_WORDS and not names[-1].quoted:
        raise reader.refused(node, "{} is not supported here; a column of that name stands between backticks")
    for name in names:
        reader.take("IDENTIFIER" if name.quoted else "VAR", name.this)
    reader.take("DOT", count=len(names) - 1)
    return nodes.Column(tuple(name.this for name in reversed(names)))


def _interval(reader: Reader, node: exp.Interval) -> Expr:
    text, unit = reader.string(node.this, "what INTERVAL counts"), node.args.get("unit")
    if type(unit) is not exp.Var or unit.name.removesuffix("S") not in INTERVAL_UNITS:
        raise reader.refused(node, f"INTERVAL takes one of {', '.join(INTERVAL_UNITS)}, not what follows {{}}")
    reader.take("VAR", unit.name)
    made = read_interval(text, unit.name.removesuffix("S"))
    if made is None:
        raise reader.refused(node, f"{{}} is no number of {unit.name} that a filter can hold")
    return made


def _typed_literal(reader: Reader, node: exp.Cast) -> Expr:
    """DATE '2024-01-01'; CAST is another node in sqlglot's Spark."""
    kind, text = node.to.this.name, reader.string(node.this, "the value of a literal")
    word = _LITERAL_WORDS.get(kind, kind)
    made = read_typed(word, text, reader.time_zone) if word in TYPED_LITERALS else None
    if made is None:
        raise reader.refused(node, f"{{}} is no {word}")
    reader.take(kind)
    return made


def _colon_cast(reader: Reader, node: _ColonCast) -> Expr:
    return nodes.Cast(reader.expr(node.this, _TERM), _type(reader, node))


def _cast(reader: Reader, node: exp.TryCast) -> Expr:
    is_try = bool(node.args.get("safe"))
    reader.take("VAR", "TRY_CAST" if is_try else "CAST")
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
    precision, scale = [int(str(reader.expr(size.this))) for size in sizes] + [10, 0][len(sizes) :]
    if not (1 <= precision <= 38 and scale <= precision):
        raise reader.refused(cast, f"there is no type {name} for {{}}")
    return pa.decimal128(precision, scale)


def _call(reader: Reader, node: exp.Anonymous) -> Expr:
    name, words = node.name.lower(), node.meta.get("words", [])
    if name not in _CALLS or not isinstance(node.this, str):
        raise reader.refused(node, f"function {node.name} is not supported in a filter")
    for word in (name, *words):
        reader.take("VAR", word)
    reader.take_list(len(node.expressions) - len(words))
    count, call = _CALLS[name]
    values = tuple(map(reader.expr, node.expressions))
    if count not in (None, len(values)):
        raise reader.refused(node, f"{name} takes {count} arguments, got {len(values)}")
    return call(name, values)


@dataclass(frozen=True, slots=True)
class _Rule:
    """How tightly a node binds, the tokens it is made of, the arguments it may carry, and how it is translated."""

    level: int
    tokens: str
    arguments: str
    read: Callable[..., Expr]


_RULES: dict[type[exp.Expr], _Rule] = {
    exp.Or: _Rule(_OR, "OR", "this expression", _connective),
    exp.And: _Rule(_AND, "AND", "this expression", _connective),
    exp.Not: _Rule(_NOT, "NOT", "this", lambda reader, node: nodes.Not(reader.expr(node.this, _NOT))),
    exp.Is: _Rule(_PREDICATE, "IS", "this expression negate", _is),
    exp.NullSafeEQ: _Rule(_PREDICATE, "IS NOT", "this expression", _is_distinct),
    exp.NullSafeNEQ: _Rule(_PREDICATE, "IS", "this expression", _is_distinct),
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
    _NullSafe: _compare(ComparisonOp.NULL_SAFE_EQ, "NULLSAFE_EQ"),
    exp.Add: _calculate(ArithmeticOp.ADD, _SUM, "PLUS"),
    exp.Sub: _calculate(ArithmeticOp.SUBTRACT, _SUM, "DASH"),
    exp.Mul: _calculate(ArithmeticOp.MULTIPLY, _PRODUCT, "STAR"),
    exp.Div: _calculate(ArithmeticOp.DIVIDE, _PRODUCT, "SLASH"),
    exp.Mod: _calculate(ArithmeticOp.REMAINDER, _PRODUCT, "MOD"),
    exp.Neg: _Rule(_SIGNED, "DASH", "this", _signed),
    _Plus: _Rule(_SIGNED, "PLUS", "this", lambda reader, node: reader.expr(node.this, _SIGNED)),
    exp.Paren: _Rule(_TERM, "L_PAREN R_PAREN", "this", lambda reader, node: reader.expr(node.this)),
    exp.Null: _Rule(_TERM, "", "", _constant),
    exp.Boolean: _Rule(_TERM, "", "this", _constant),
    exp.Literal: _Rule(_TERM, "", "this is_string", _literal),
    exp.Column: _Rule(_TERM, "", "this table db catalog", _column),
    exp.Dot: _Rule(_TERM, "", "this expression", _column),
    exp.Interval: _Rule(_TERM, "INTERVAL", "this unit", _interval),
    exp.Cast: _Rule(_TERM, "", "this to", _typed_literal),
    _ColonCast: _Rule(_TERM, "DCOLON", "this to", _colon_cast),
    exp.TryCast: _Rule(_TERM, "ALIAS L_PAREN R_PAREN", "this to safe", _cast),
    exp.Anonymous: _Rule(_TERM, "", "this expressions", _call),
}


def _string_match(name: str, values: tuple[Expr, ...]) -> Expr:
    value, text = values
    if not (isinstance(text, Literal) and isinstance(text.value, str)):
        raise InvalidInputError(f"what {name} looks for must be a string constant, got {text}")
    return nodes.StringMatch(nodes.StringMatchOp(name), value, text.value)


def _type_call(name: str, values: tuple[Expr, ...]) -> Expr:
    """`double(x)`, another way to write CAST; of 'NaN' and the infinities it is how their literals are written."""
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
    "isnan": (1, lambda _, values: nodes.IsNan(*values)),
    "isnull": (1, lambda _, values: nodes.IsNull(*values)),
    "isnotnull": (1, lambda _, values: nodes.Not(nodes.IsNull(*values))),
    "mod": (2, lambda _, values: nodes.Arithmetic(ArithmeticOp.REMAINDER, *values)),
}
"""The number of arguments, unless the node checks it, and what makes the node of name and arguments."""
