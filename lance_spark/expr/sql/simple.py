"""Parses the filters of lookups without sqlglot: comparisons of columns with plain constants, joined by AND.

What is read here has one meaning only, that of the whole grammar; everything else is left to it (`expr.sql.reader`).
A key is parsed in a tenth of the time, a list of 1,000 keys in a twentieth, which is more than their rows take.

>>> str(parse_simple("id = 5 AND kind IN ('a', 'b')")), parse_simple("id = 5 OR id = 6")
("id = 5 AND kind IN ('a', 'b')", None)
"""

from __future__ import annotations

import re

import pyarrow as pa

from lance_spark.expr.literals import Literal
from lance_spark.expr.nodes import RESERVED_WORDS, And, Column, Comparison, ComparisonOp, Expr, In, IsNull, Not

_OTHER_WORDS = frozenset({"as", "div", "escape", "for", "from"})
"""Names that other parts of the grammar give a meaning at some places."""

_BLANK = r"[ \t\r\n]"
# At most 18 digits: longer numbers can be decimals. A quote is doubled, and texts are joined, by the whole grammar.
_CONSTANT = r"(?:-?[0-9]{1,18}(?![\w.])|'[^'\\]*'(?!'))"

_TERM = re.compile(
    rf"""
    {_BLANK}*(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:
        {_BLANK}*(?P<op><=|>=|<>|!=|==|=|<|>){_BLANK}*(?P<value>{_CONSTANT})
        |{_BLANK}+BETWEEN{_BLANK}+(?P<low>{_CONSTANT}){_BLANK}+AND{_BLANK}+(?P<high>{_CONSTANT})
        |{_BLANK}+IN{_BLANK}*\({_BLANK}*(?P<options>{_CONSTANT}(?:{_BLANK}*,{_BLANK}*{_CONSTANT})*){_BLANK}*\)
        |{_BLANK}+IS(?P<negated>{_BLANK}+NOT)?(?P<null>{_BLANK}+NULL)
    )(?:{_BLANK}+AND(?P<more>{_BLANK})|{_BLANK}*\Z)
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_EACH_CONSTANT = re.compile(_CONSTANT)

_TEXT, _NUMBER = pa.string(), pa.int64()

_OPS = {op.value: op for op in ComparisonOp} | {"==": ComparisonOp.EQ, "!=": ComparisonOp.NE}


def parse_simple(sql: str) -> Expr | None:
    """The filter of a text, which is the one that the whole grammar reads; None if it is not as simple."""
    terms: list[Expr] = []
    place = 0
    while True:
        found = _TERM.match(sql, place)
        if found is None:
            return None
        name = found["name"]
        if name.lower() in RESERVED_WORDS or name.lower() in _OTHER_WORDS:
            return None
        terms.append(_term(Column((name,)), found))
        if found["more"] is None:
            return terms[0] if len(terms) == 1 else And(tuple(terms))
        place = found.end()


def _term(column: Column, found: re.Match[str]) -> Expr:
    if found["op"]:
        return Comparison(_OPS[found["op"]], column, _constant(found["value"]))
    if found["low"]:
        low, high = _constant(found["low"]), _constant(found["high"])
        return And((Comparison(ComparisonOp.GE, column, low), Comparison(ComparisonOp.LE, column, high)))
    if found["options"]:
        return In(column, tuple(map(_constant, _EACH_CONSTANT.findall(found["options"]))))
    return Not(IsNull(column)) if found["negated"] else IsNull(column)


def _constant(text: str) -> Literal:
    return Literal(text[1:-1], _TEXT) if text[0] == "'" else Literal(int(text), _NUMBER)
