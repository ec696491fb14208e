"""The tokens of a filter: those of sqlglot's tokenizer, checked, and joined where the grammar has one for several."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from sqlglot import TokenType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError

from lance_spark.errors import InvalidInputError
from lance_spark.expr import nodes
from lance_spark.expr.nodes import MAX_DEPTH
from lance_spark.expr.sql.literals import NUMBER, STRING, TYPED_LITERALS, read_string

_CASE_KINDS = {word: TokenType[word] for word in ("WHEN", "THEN", "ELSE", "END")}
"""Names, unless a CASE is open."""
_WORDS = ("AND", "OR", "NOT", "IS", "IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "NULL", "TRUE", "FALSE")
_SIGNS = ("==", "<>", "!=", "<=", ">=", "<=>", "::", "||")
_KEYWORDS = {word: Spark.Tokenizer.KEYWORDS[word] for word in (*_WORDS, *_SIGNS)} | {
    # `::` gets another node than CAST, one that sqlglot's Spark dialect does not use otherwise.
    "::": TokenType.DOTCOLON
}
NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
_TEXTS = frozenset({*NAMES, TokenType.NUMBER, TokenType.STRING})
_KINDS = frozenset(_KEYWORDS.values()) | {Spark.Tokenizer.SINGLE_TOKENS[sign] for sign in "(),.+-*/%=<>!"}
_PREFIXES = (TokenType.NOT, TokenType.DASH, TokenType.PLUS)

_CAST_WORDS = {*nodes.CAST_TYPES, "DECIMAL", "DEC", "NUMERIC", "BYTE", "SHORT", "INTEGER", "LONG", "REAL"}
_CAST_TOKENS = {word: Spark.Tokenizer.KEYWORDS[word] for word in _CAST_WORDS}
_VALUE_ENDS = _TEXTS | {
    TokenType.R_PAREN,
    TokenType.NULL,
    TokenType.TRUE,
    TokenType.FALSE,
    TokenType.END,
    *_CAST_TOKENS.values(),
}

_BLANK = re.compile(r"(?:\s|--(?:[^\r\n]*[^\r\n\\])?(?=[\r\n]|\Z)|/\*(?:[^*]|\*(?!/))*\*/)*")
_NAME = re.compile(r"[^\W\d]\w*")
_QUOTED_NAME = re.compile(r"`(?:[^`]|``)+`")
_HAS_UNIT = re.compile(r"[0-9]\s+[A-Za-z]+\s*\Z")
"""The text of an interval such as '7 days'."""
_OPERATORS = {"DIV", "REGEXP", "SIMILAR", "COLLATE", "AT", *"&|^~"}
UNSUPPORTED = {
    **{word: word.upper() for word in ("exists", "select", "with")},
    **{"[": "an element of an array or map", "?": "a parameter", ":": "a parameter or path with :"},
}


_FIELD, _FIELD_END = "[field", "field]"
"""After the bracket before the name of a field, and after the name."""


class _Tokenizer(Spark.Tokenizer):
    KEYWORDS: ClassVar = _KEYWORDS
    STRING_ESCAPES: ClassVar = ["\\", "'", '"']
    NUMERIC_LITERALS: ClassVar = {}
    HEX_STRINGS: ClassVar = []
    COMMANDS: ClassVar = set()


@dataclass(slots=True)
class FilterToken:
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
        """In upper case, if it is one that is not quoted; else empty."""
        return self.text.upper() if self.kind is TokenType.VAR else ""


def sent_text(number: int, token: FilterToken) -> str:
    """What sqlglot sees of a token: its kind, or a text that is not an SQL word."""
    if token.kind not in _TEXTS:
        return token.kind.name
    return token.kept or f"{'n' if token.kind in NAMES else 0}{number}"


def position_text(sql: str, start: int) -> str:
    """Line and column of a place in the text, for messages."""
    line = sql.count("\n", 0, start)
    return f"at line {line + 1}, column {start - sql.rfind(chr(10), 0, start)} of the filter"


def unexpected(sql: str, start: int, end: int) -> InvalidInputError:
    """The error about a part of the text that has no place in a filter."""
    text = sql[start:end]
    what = f"operator {text.upper()}" if text.upper() in _OPERATORS else UNSUPPORTED.get(text.lower())
    message = f"unexpected {text!r}" if text else "unexpected end of the filter"
    return InvalidInputError(
        f"{f'{what} is not supported in a filter' if what else message} {position_text(sql, start)}"
    )


def tokenize(sql: str) -> list[FilterToken]:
    """The tokens of a filter.

    Raises:
        InvalidInputError: an unknown sign, a quote, comment, bracket or parenthesis without its end, or nesting that is
            too deep.
    """
    try:
        found = _Tokenizer(dialect="spark").tokenize(sql)
    except TokenError as error:
        quote = re.search(r"Missing (.) from \d+:(\d+)", f"{error.__cause__} {error}")
        what = (
            f"unclosed {quote[1]} {position_text(sql, int(quote[2]))}"
            if quote
            else "unclosed quote or comment in the filter"
        )
        raise InvalidInputError(what) from error
    made: list[FilterToken] = []
    opened: list[str] = []
    end = 0
    for start, stop, kind in [
        *((token.start, token.end + 1, token.token_type) for token in found),
        (len(sql), 0, None),
    ]:
        # Between tokens only Spark's whitespace and comments are allowed, and nothing else that sqlglot skips.
        if not _BLANK.fullmatch(sql, end, start):
            raise InvalidInputError(f"unclosed comment, or one that Spark does not know, {position_text(sql, end)}")
        if kind is not None:
            for name, text in _parts(sql, start, stop, kind, opened, made):
                _add(made, sql, FilterToken(name, text, start, stop))
        end = stop
    if opened[-1:] in ([_FIELD], [_FIELD_END]):
        raise unexpected(sql, len(sql), len(sql))
    _check_nesting(sql, made)
    return made


def _parts(
    sql: str, start: int, end: int, kind: TokenType, opened: list[str], made: list[FilterToken]
) -> list[tuple[TokenType, str]]:
    """Kind and text of a token; a list in brackets is ``array(...)``.

    Args:
        opened: the brackets and parentheses around the token; those of this token are added or removed.
        made: the tokens before it. After a name a text in brackets is a field of a struct; numbers are refused.
    """
    if opened[-1:] == [_FIELD]:
        if kind is not TokenType.STRING:
            raise InvalidInputError(
                f"items of lists are counted from 1 by the reference library and from 0 by Spark; write "
                f"array_element(x, 1) for the first one, {position_text(sql, start)}"
            )
        opened[-1] = _FIELD_END
        return [(TokenType.IDENTIFIER, _kind_and_text(sql, start, end, kind)[1])]
    if opened[-1:] == [_FIELD_END]:
        if kind is not TokenType.R_BRACKET:
            raise unexpected(sql, start, end)
        opened.pop()
        return []
    if kind is TokenType.L_BRACKET and made and made[-1].kind in NAMES:
        opened.append(_FIELD)
        return [(TokenType.DOT, ".")]
    if kind is TokenType.L_BRACKET and not (made and made[-1].kind in _VALUE_ENDS):
        opened.append("[")
        return [(TokenType.VAR, "array"), (TokenType.L_PAREN, "(")]
    if kind is TokenType.R_BRACKET and opened[-1:] == ["["]:
        opened.pop()
        return [(TokenType.R_PAREN, ")")]
    if kind is TokenType.L_PAREN:
        opened.append("(")
    elif kind is TokenType.R_PAREN and opened and opened.pop() == "[":
        raise unexpected(sql, start, end)
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
    raise unexpected(sql, start, end)


def _add(tokens: list[FilterToken], sql: str, token: FilterToken) -> None:
    """Appends a token. Adjacent literals and strings are merged; a word is a keyword where it can be nothing else."""
    last = tokens[-1] if tokens else FilterToken(TokenType.COMMA, "", -1, -1)
    before, kind, word, joined = last.kind, token.kind, token.word, last.end == token.start
    if (joined and before is TokenType.NUMBER and kind in _TEXTS) or (before, kind) == (TokenType.NOT, TokenType.IS):
        # sqlglot reads 0x1F as two tokens, and accepts `a NOT IS NULL`.
        raise unexpected(sql, last.start, token.end)
    if kind is TokenType.STRING and (last.word in TYPED_LITERALS or last.word == "INTERVAL"):
        last.kind, last.text, last.end, last.type = kind, token.text, token.end, last.word
        return
    if word and last.type == "INTERVAL" and not last.unit and not _HAS_UNIT.search(last.text):
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
    elif word == "CASE":
        token.kind = TokenType.CASE
    elif word in _CASE_KINDS and _is_in_case(tokens):
        token.kind = _CASE_KINDS[word]
    elif word == "ESCAPE" and before is TokenType.STRING:
        token.kind = TokenType.ESCAPE
    elif word and before in (TokenType.ALIAS, TokenType.DOTCOLON):
        token.kind = _CAST_TOKENS.get(word, kind)
    elif word == "FROM" and last.word == "DISTINCT" and len(tokens) > 2:
        if tokens[-2].kind is TokenType.IS:
            last.kept, token.kept = "DISTINCT", "FROM"
        elif (tokens[-3].kind, tokens[-2].kind) == (TokenType.IS, TokenType.NOT):
            token = FilterToken(TokenType.NULLSAFE_EQ, "", tokens[-3].start, token.end)
            del tokens[-3:]
    tokens.append(token)


def _is_in_case(tokens: list[FilterToken]) -> bool:
    kinds = [token.kind for token in tokens]
    return kinds.count(TokenType.CASE) > kinds.count(TokenType.END)


_COMMA_WORDS = {"SUBSTRING": ["FROM", "FOR"], "SUBSTR": ["FROM", "FOR"], "EXTRACT": ["FROM"]}
"""The words that stand for the commas of a call."""


def _check_nesting(sql: str, tokens: list[FilterToken]) -> None:
    """Checks that parentheses match and do not nest too deep. Words replace the commas of some calls."""
    levels: list[tuple[int, list[str]]] = []
    prefixes = 0
    for before, token in zip([FilterToken(TokenType.COMMA, "", 0, 0), *tokens], tokens, strict=False):
        if levels and token.word in levels[-1][1][:1] and before.kind in _VALUE_ENDS and not token.kept:
            token.kind = TokenType.COMMA
        if token.kind is TokenType.L_PAREN:
            levels.append((prefixes + 1, _COMMA_WORDS.get(before.word, [])[:]))
        elif token.kind is TokenType.COMMA and levels:
            del levels[-1][1][:1]
        elif token.kind is TokenType.R_PAREN:
            if not levels:
                raise unexpected(sql, token.start, token.end)
            levels.pop()
        prefixes = prefixes + 1 if token.kind in _PREFIXES else 0
        if sum(level for level, _ in levels) + prefixes > MAX_DEPTH:
            raise InvalidInputError(f"more than {MAX_DEPTH} levels of nesting {position_text(sql, token.start)}")
