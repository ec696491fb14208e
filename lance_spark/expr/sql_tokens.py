"""The words of a filter in SQL, by the lexical rules of Spark.

Strings stand in single or double quotes with backslash escapes (`\\n`, `\\'`, `\\u0041`, `\\101`; a doubled quote is
one quote), names in backticks where they are no plain word, and numbers may carry a suffix that names their type.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from lance_spark.errors import InvalidInputError


class TokenKind(str, Enum):
    """What a token is."""

    NAME = "name"
    QUOTED_NAME = "quoted name"
    STRING = "string"
    NUMBER = "number"
    OPERATOR = "operator"
    END = "end of the filter"


@dataclass(frozen=True, slots=True)
class Token:
    """A token and where it starts (0 is the first character).

    `text` is as written, except for strings and quoted names, where it is what they mean. `word` is the text in upper
    case for plain names and operators, empty for others: what the grammar compares with.
    """

    kind: TokenKind
    text: str
    start: int
    word: str = ""


_TOKEN = re.compile(
    r"""
      (?P<blank> \s+ | --[^\n]* | /\*.*?\*/ )
    | (?P<raw> [rR] (?: '[^']*' | "[^"]*" ) )
    | (?P<string> '(?: [^'\\] | \\. | '' )*' | "(?: [^"\\] | \\. | "" )*" )
    | (?P<quoted> `(?: [^`] | `` )+` )
    | (?P<number> (?: \d+\.?\d* | \.\d+ ) (?: [eE][+-]?\d+ )? (?: BD | [LSYFD] )? (?! \w ) )
    | (?P<name> [^\W\d]\w* )
    | (?P<operator> <=> | <> | != | == | <= | >= | \|\| | :: | [-+*%=<>(),.!] | / (?! \* ) )
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_SYNONYMS = {"!=": "<>", "==": "=", "!": "NOT"}


_UNSUPPORTED_CHARACTERS = {
    **{bit: f"operator {bit} is not supported in a filter," for bit in "&|^~"},
    "[": "[...], an element of an array or map, is not supported in a filter,",
    "?": "a parameter is not supported in a filter,",
    ":": "a parameter or path with : is not supported in a filter,",
    ";": "a filter is one condition, no statement,",
}


def position(sql: str, start: int) -> str:
    """Where a character of the filter stands, for messages.

    >>> position("a = 1 AND\\nb ?? 2", 12)
    'line 2, column 3'
    """
    line = sql.count("\n", 0, start)
    return f"line {line + 1}, column {start - (sql.rfind(chr(10), 0, start) + 1) + 1}"


def tokenize(sql: str) -> list[Token]:
    """The tokens of a filter, an END token last.

    Raises:
        InvalidInputError: something that no token begins with, with its position.
    """
    tokens: list[Token] = []
    at = 0
    while at < len(sql):
        match = _TOKEN.match(sql, at)
        if match is None:
            raise InvalidInputError(f"{_complaint(sql, at)} at {position(sql, at)} of the filter")
        if match.lastgroup != "blank":
            tokens.append(_token(match, sql))
        at = match.end()
    return [*tokens, Token(TokenKind.END, "", len(sql))]


def _complaint(sql: str, at: int) -> str:
    if sql[at] in "'\"`":
        return f"unclosed {sql[at]}"
    if sql.startswith("/*", at):
        return "unclosed comment"
    if sql[at].isdigit():
        word = re.match(r"\w+", sql[at:])
        return f"{word[0] if word else sql[at]!r} is neither a number nor a name (put names between backticks)"
    return _UNSUPPORTED_CHARACTERS.get(sql[at], f"unexpected character {sql[at]!r}")


def _token(match: re.Match[str], sql: str) -> Token:
    text, start = match[0], match.start()
    if match.lastgroup == "raw":
        return Token(TokenKind.STRING, text[2:-1], start)
    if match.lastgroup == "string":
        return Token(TokenKind.STRING, _unescaped(text, sql, start), start)
    if match.lastgroup == "quoted":
        return Token(TokenKind.QUOTED_NAME, text[1:-1].replace("``", "`"), start)
    if match.lastgroup == "number":
        return Token(TokenKind.NUMBER, text, start)
    kind = TokenKind.NAME if match.lastgroup == "name" else TokenKind.OPERATOR
    return Token(kind, text, start, _SYNONYMS.get(text, text.upper()))


_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_CONTROLS = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def _unescaped(text: str, sql: str, start: int) -> str:
    """What a quoted string means (Spark's `unescapeSQLString`). `\\%` and `\\_` stay as they are, for LIKE."""

    def character(match: re.Match[str]) -> str:
        four, eight, octal, single = match.groups()
        if four or eight:
            code = int(four or eight, 16)
            if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
                raise InvalidInputError(f"{match[0]} at {position(sql, start)} of the filter is no character")
            return chr(code)
        if octal:
            return chr(int(octal, 8))
        return _CONTROLS.get(single, match[0] if single in "%_" else single)

    quote = text[0]
    pieces = re.split(r"(\\.)", text[1:-1], flags=re.DOTALL)
    # A doubled quote is one quote, unless a backslash already took the first of the two.
    doubled = "".join(piece if index % 2 else piece.replace(quote * 2, quote) for index, piece in enumerate(pieces))
    return _ESCAPE.sub(character, doubled)
