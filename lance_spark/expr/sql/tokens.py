"""The tokens of a filter.

>>> [(token.kind, token.text) for token in tokenize("a.b >= 5L -- five")]
[('name', 'a'), ('.', '.'), ('name', 'b'), ('>=', '>='), ('number', '5L'), ('', '')]
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lance_spark.errors import InvalidInputError
from lance_spark.expr.sql.literals import NUMBER, STRING

NAME, QUOTED, STRING_KIND, NUMBER_KIND, END = "name", "quoted", "string", "number", ""

_KEYWORDS = {
    **{word: word for word in ("AND", "OR", "NOT", "IS", "IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE")},
    **{word: word for word in ("NULL", "TRUE", "FALSE")},
}
"""Words that are no names anywhere; all other words of the grammar are keywords where they can be nothing else."""

_SIGNS = {"==": "=", "!=": "<>", "!": "NOT"}
"""Signs with a synonym."""

_TOKEN = re.compile(
    rf"""
    (?:\s | --(?:[^\r\n]*[^\r\n\\])?(?=[\r\n]|\Z) | /\*(?:(?!/\*|\*/).)*\*/)*
    (?:
        (?P<{STRING_KIND}> {STRING.pattern} )
        | (?P<{NAME}> [^\W\d]\w* )
        | (?P<{NUMBER_KIND}> {NUMBER.pattern} )
        | (?P<sign> <=> | <> | [<>=!]= | \|\| | :: | -(?!-) | /(?!\*) | [()\[\],.+*%=<>!] )
        | (?P<{QUOTED}> `(?:[^`]|``)+`(?!`) )
        | (?P<end> \Z )
        | (?P<other> . )
    )
    """,
    re.VERBOSE | re.DOTALL,
)
"""A token after blanks. No comment is in another one, and none ends with a backslash: Spark reads these otherwise."""

_JOINED = re.compile(r"[\w'\"`]")
"""A character that must not follow a number without a blank, as in 0x1F."""

_WITH_JOINED = re.compile(r"[\w.]+['\"`]?")

_OPERATORS = {"DIV", "REGEXP", "SIMILAR", "COLLATE", "AT", *"&|^~"}
_UNSUPPORTED = {
    **{word: word for word in ("EXISTS", "SELECT", "WITH")},
    **{"[": "an element of an array or map", "?": "a parameter", ":": "a parameter or path with :"},
}


class FilterToken(NamedTuple):
    """A token; its text is that of the filter, with quotes. Its kind is that of a name or constant, or its keyword or
    sign.
    """

    kind: str
    text: str
    start: int

    @property
    def word(self) -> str:
        """In upper case, if it is a name that is not quoted; else empty."""
        return self.text.upper() if self.kind == NAME else ""

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def is_unsupported(self) -> bool:
        """Whether it is an operator or construct of SQL that filters do not have."""
        return self.text.upper() in _OPERATORS or self.text.upper() in _UNSUPPORTED


def position_text(sql: str, start: int) -> str:
    """Line and column of a place in the text, for messages."""
    line = sql.count("\n", 0, start)
    return f"at line {line + 1}, column {start - sql.rfind(chr(10), 0, start)} of the filter"


def unexpected(sql: str, token: FilterToken) -> InvalidInputError:
    """The error about a part of the text that has no place in a filter."""
    text, word = token.text, token.text.upper()
    what = f"operator {word}" if word in _OPERATORS else _UNSUPPORTED.get(word)
    message = f"unexpected {text!r}" if text else "unexpected end of the filter"
    return InvalidInputError(
        f"{f'{what} is not supported in a filter' if what else message} {position_text(sql, token.start)}"
    )


def tokenize(sql: str) -> list[FilterToken]:
    """The tokens of a filter, with one of kind `END` after them.

    Raises:
        InvalidInputError: an unknown sign, or a quote or comment without its end.
    """
    tokens: list[FilterToken] = []
    for match in _TOKEN.finditer(sql):
        kind = match.lastgroup
        assert kind is not None  # `other` is any character
        start, text = match.start(kind), match[kind]
        if kind == "sign":
            kind = _SIGNS.get(text, text)
        elif kind == NAME:
            kind = _KEYWORDS.get(text.upper(), NAME)
        elif kind == NUMBER_KIND:
            if _JOINED.match(sql, match.end()):
                raise _no_token(sql, FilterToken(kind, text, start))
        elif kind == "end":
            break
        elif kind == "other":
            raise _no_token(sql, FilterToken(kind, text, start))
        tokens.append(tuple.__new__(FilterToken, (kind, text, start)))  # in half the time of FilterToken()
    tokens.append(FilterToken(END, "", len(sql)))
    return tokens


def _no_token(sql: str, token: FilterToken) -> InvalidInputError:
    if token.text in "'\"`":
        return InvalidInputError(f"unclosed {token.text} {position_text(sql, token.start)}")
    if token.text in "-/":
        where = position_text(sql, token.start)
        return InvalidInputError(f"unclosed quote or comment, or a comment that Spark does not know, {where}")
    joined = _WITH_JOINED.match(sql, token.start)
    return unexpected(sql, token if joined is None else token._replace(text=joined[0]))
