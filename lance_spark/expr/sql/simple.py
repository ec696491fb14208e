"""Parses the filters of lookups without sqlglot: conditions on a column with plain constants, joined by AND and OR.

What is read here has one meaning only, that of the whole grammar; everything else is left to it (`expr.sql.reader`).
A key is parsed in a tenth of the time, a list of 1,000 keys in a twentieth, which is more than their rows take.

>>> str(parse_simple("id = 5 AND kind IN ('a', 'b') OR contains(kind, 'c')")), parse_simple("id = 5 + 1")
("(id = 5 AND kind IN ('a', 'b')) OR contains(kind, 'c')", None)
"""

from __future__ import annotations

import re

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.literals import Literal
from lance_spark.expr.nodes import (
    RESERVED_WORDS,
    And,
    Column,
    Comparison,
    ComparisonOp,
    Expr,
    In,
    IsNull,
    Like,
    Not,
    Or,
)

_OTHER_WORDS = frozenset({"as", "div", "escape", "for", "from"})
"""Names that other parts of the grammar give a meaning at some places."""

_MOST_OPEN = 20
"""Parentheses in one another; the whole grammar counts them together with other operators."""

_BLANK = r"[ \t\r\n]"
# At most 18 digits: longer numbers can be decimals. A quote is doubled, and texts are joined, by the whole grammar.
_TEXT_CONSTANT = r"'[^'\\]*'(?!')"
_CONSTANT = rf"(?:-?[0-9]{{1,18}}(?![\w.])|{_TEXT_CONSTANT})"
_FUNCTIONS = "contains|(?:starts|ends)_?with|(?:array|list)_(?:contains|has)|lance_match(?:_phrase)?|contains_tokens"

_TERM = re.compile(
    rf"""
    {_BLANK}*(?:
    (?P<function>{_FUNCTIONS})\({_BLANK}*(?P<argument>[A-Za-z_][A-Za-z0-9_]*){_BLANK}*,
        {_BLANK}*(?P<item>{_CONSTANT}){_BLANK}*\)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:
        {_BLANK}*(?P<op><=|>=|<>|!=|==|=|<|>){_BLANK}*(?P<value>{_CONSTANT})
        |{_BLANK}+BETWEEN{_BLANK}+(?P<low>{_CONSTANT}){_BLANK}+AND{_BLANK}+(?P<high>{_CONSTANT})
        |(?P<not>{_BLANK}+NOT)?{_BLANK}+IN{_BLANK}*
            \({_BLANK}*(?P<options>{_CONSTANT}(?:{_BLANK}*,{_BLANK}*{_CONSTANT})*){_BLANK}*\)
        |(?P<unlike>{_BLANK}+NOT)?{_BLANK}+LIKE{_BLANK}*(?P<pattern>{_TEXT_CONSTANT})
        |{_BLANK}+IS(?P<negated>{_BLANK}+NOT)?(?P<null>{_BLANK}+NULL)
    ))
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_OPEN = re.compile(rf"{_BLANK}*\(")
_CLOSE = re.compile(rf"{_BLANK}*\)")
_JOIN = re.compile(rf"(?:{_BLANK}+|(?<=\)))(?P<word>AND|OR)(?={_BLANK}|\()", re.IGNORECASE)
_END = re.compile(rf"{_BLANK}*\Z")
_EACH_CONSTANT = re.compile(_CONSTANT)

_TEXT, _NUMBER = pa.string(), pa.int64()

_OPS = {op.value: op for op in ComparisonOp} | {"==": ComparisonOp.EQ, "!=": ComparisonOp.NE}


class _NotSimpleError(Exception):
    """The text is left to the whole grammar."""


def parse_simple(sql: str) -> Expr | None:
    """The filter of a text, which is the one that the whole grammar reads; None if it is not as simple."""
    reader = _Reader(sql)
    try:
        found = reader.alternatives(0)
    except (_NotSimpleError, InvalidInputError):
        return None
    return found if _END.match(sql, reader.place) else None


class _Reader:
    def __init__(self, sql: str) -> None:
        self._sql = sql
        self.place = 0

    def alternatives(self, depth: int) -> Expr:
        """Terms joined by OR and AND, which binds closer; within `depth` parentheses."""
        found: list[Expr] = []
        terms = [self._term(depth)]
        while joined := _JOIN.match(self._sql, self.place):
            self.place = joined.end()
            if joined["word"].upper() == "OR":
                found.append(_joined(And, terms))
                terms = []
            terms.append(self._term(depth))
        return _joined(Or, [*found, _joined(And, terms)])

    def _term(self, depth: int) -> Expr:
        found = _TERM.match(self._sql, self.place)
        if found is not None:
            self.place = found.end()
            return _condition(found)
        self._pass(_OPEN)
        if depth >= _MOST_OPEN:
            raise _NotSimpleError
        inner = self.alternatives(depth + 1)
        self._pass(_CLOSE)
        return inner

    def _pass(self, sign: re.Pattern[str]) -> None:
        found = sign.match(self._sql, self.place)
        if found is None:
            raise _NotSimpleError
        self.place = found.end()


def _joined(kind: type[And] | type[Or], terms: list[Expr]) -> Expr:
    return terms[0] if len(terms) == 1 else kind(tuple(terms))


def _condition(found: re.Match[str]) -> Expr:
    name = found["name"] or found["argument"]
    if name.lower() in RESERVED_WORDS or name.lower() in _OTHER_WORDS:
        raise _NotSimpleError
    column = Column((name,))
    if found["op"]:
        return Comparison(_OPS[found["op"]], column, _constant(found["value"]))
    if found["low"]:
        low, high = _constant(found["low"]), _constant(found["high"])
        return And((Comparison(ComparisonOp.GE, column, low), Comparison(ComparisonOp.LE, column, high)))
    if found["options"]:
        options = In(column, tuple(map(_constant, _EACH_CONSTANT.findall(found["options"]))))
        return Not(options) if found["not"] else options
    if found["pattern"]:
        like = Like(column, found["pattern"][1:-1])
        return Not(like) if found["unlike"] else like
    if found["function"]:
        return _call(found["function"].lower(), column, _constant(found["item"]))
    return Not(IsNull(column)) if found["negated"] else IsNull(column)


def _call(name: str, column: Column, item: Literal) -> Expr:
    # Imported here: few filters have calls.
    from lance_spark.expr.sql.calls import CALLS

    _, call = CALLS[name]
    return call(name, (column, item))


def _constant(text: str) -> Literal:
    return Literal(text[1:-1], _TEXT) if text[0] == "'" else Literal(int(text), _NUMBER)
