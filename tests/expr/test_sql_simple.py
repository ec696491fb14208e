"""The parser of simple filters reads what the whole grammar reads, or nothing."""

from __future__ import annotations

import random

import pytest

from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import RESERVED_WORDS, Expr
from lance_spark.expr.sql.reader import Reader
from lance_spark.expr.sql.simple import parse_simple

SIMPLE = [
    "id = 5",
    "  id==-5\n",
    "id<>007",
    "id != -0",
    "Kind >= 'it is'",
    "kind = ''",
    "kind = 'é￿𝄞 -- /* \" `'",
    "a <= 999999999999999999",
    "id BETWEEN -5 AND 7",
    "id between\t1 and 2 and kind = 'x'",
    "id IN (1)",
    "id in ( 1 ,2,\n3, -4 ) AND kind IS NOT NULL",
    "kind IN ('a', 'b,c', ')', ' AND ')",
    "id IS NULL AND id is not null",
    "a = 1 AND b = 2 AND a = 1",
    "mixed IN (1, 'a')",
    "id = 5 OR id = 6",
    "id = 5 OR id = 6 AND kind = 'x' or kind = 'y'",
    "(id = 5)",
    "( (id = 5 OR kind = 'x') AND(id < 7))and id > 2",
    "((a = 1 AND b = 2) AND c = 3) OR (d = 4 OR e = 5)",
    "id NOT IN (5, 6) AND kind NOT LIKE 'a_'",
    "kind LIKE 'a%' OR kind like ''",
    "contains(kind, 'a') AND starts_with(kind,'b')OR endswith( kind , 'c' )",
    "array_contains(tags, 7) AND list_has(tags, 'x')",
    "lance_match(body, 'some words') AND id = 5",
    "lance_match_phrase(body, 'some words') OR contains_tokens(body, 'x')",
    "contains = 5 AND like_this IN (3)",
]
OTHER = [
    "id = 5.0",
    "id = 5.",
    "id = 5L",
    "id = 5e0",
    "id = - 5",
    "id = 1234567890123456789",
    "id = NULL",
    "5 = id",
    "a.b = 5",
    "`id` = 5",
    "NOT id = 5",
    "(id) = 5",
    "(id = 5",
    "id = 5)",
    "()",
    "contains(kind, 5)",
    "contains('a', kind)",
    "contains(a.b, 'x')",
    "contains (kind, 'x')",
    "contains(kind, 'x') = TRUE",
    "kind LIKE 'a' ESCAPE '!'",
    "kind LIKE kind",
    "(" * 30 + "id = 5" + ")" * 30,
    "kind = 'it''s'",
    r"kind = 'a\n'",
    "kind = 'a' 'b'",
    'kind = "a"',
    "id = 5 -- five",
    "day = DATE '2024-01-01'",
    "id <=> 5",
    "id = other",
    "a = 1 AND\u00a0b = 2",
    "array_contains(tags, NULL)",
]


def whole(sql: str) -> Expr | None:
    """What the whole grammar reads; None if it refuses the text."""
    try:
        return Reader(sql, "UTC").read()
    except (InvalidInputError, RecursionError):
        return None


@pytest.mark.parametrize("sql", SIMPLE)
def test_simple_filters_are_read_as_by_the_whole_grammar(sql: str) -> None:
    assert parse_simple(sql) == whole(sql) is not None


@pytest.mark.parametrize("sql", OTHER)
def test_other_filters_are_left_to_the_whole_grammar(sql: str) -> None:
    assert parse_simple(sql) is None


@pytest.mark.parametrize(
    "word",
    [*sorted(RESERVED_WORDS), *["as", "div", "escape", "for", "from", "nan", "date", "x", "interval", "unknown", "r"]],
)
def test_words_with_a_meaning_are_no_other_columns(word: str) -> None:
    for sql in (
        f"{word} = 5",
        f"{word} IN (5)",
        f"a = 5 AND {word} = 'a'",
        f"{word} IS NULL",
        f"{word} BETWEEN 1 AND 2",
    ):
        found = parse_simple(sql)
        assert found is None or found == whole(sql)


def test_long_chains_and_lists_are_read_as_by_the_whole_grammar() -> None:
    for sql in (
        " AND ".join(["a = 1"] * 500),
        " OR ".join(["a = 1 AND b = 2"] * 300),
        f"a IN ({', '.join(map(str, range(-500, 500)))})",
    ):
        assert parse_simple(sql) == whole(sql) is not None


@pytest.mark.parametrize("seed", range(4))
def test_random_texts_are_read_as_by_the_whole_grammar_or_not_at_all(seed: int) -> None:
    rng = random.Random(seed)
    words = [
        *(
            "id",
            "kind",
            "a",
            "x",
            "div",
            "date",
            "as",
            "and",
            "AND",
            "in",
            "IN",
            "is",
            "not",
            "null",
            "between",
            "or",
            "like",
        ),
        *("contains(", "array_has(", "lance_match", "OR", "("),
        *(
            "=",
            "==",
            "<",
            "<=",
            "!",
            "-",
            "+",
            "(",
            ")",
            ",",
            ".",
            "1",
            "-2",
            "03",
            "5L",
            "7.5",
            "'a'",
            "''",
            "'b",
            "\\'",
        ),
        *(" ", " ", " ", "\n", "--", "/*", "*/", "`a`", '"a"'),
    ]
    num_simple = 0
    for _ in range(1500):
        pieces = rng.choice(SIMPLE).replace("(", " ( ").replace(",", " , ").split(" ")
        for _ in range(rng.randrange(4)):
            place = rng.randrange(len(pieces))
            pieces[place : place + rng.randrange(2)] = [rng.choice(words)]
        sql = rng.choice(["", " "]).join(pieces) if rng.random() < 0.2 else " ".join(pieces)
        found = parse_simple(sql)
        if found is not None:
            num_simple += 1
            assert found == whole(sql), sql
    assert num_simple > 100
