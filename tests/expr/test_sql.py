# ruff: noqa: E501
"""Filters in SQL: what they mean, what is refused, and that a tree survives being written and read."""

from __future__ import annotations

import datetime
import math
import pickle
import random
import re
from decimal import Decimal

import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.errors import InvalidInputError
from lance_spark.expr.evaluate import evaluate, evaluate_filter
from lance_spark.expr.function_names import FunctionName
from lance_spark.expr.literals import NULL, TRUE, Literal, literal
from lance_spark.expr.nodes import (
    MAX_DEPTH,
    MAX_TREE_DEPTH,
    And,
    Arithmetic,
    ArithmeticOp,
    ArrayContains,
    Cast,
    Column,
    Comparison,
    ComparisonOp,
    Expr,
    Function,
    In,
    IsNan,
    IsNull,
    Like,
    Negate,
    Not,
    Or,
    StringMatch,
    StringMatchOp,
    referenced_columns,
)
from lance_spark.expr.sql.parse import parse
from tests.expr.filter_texts import Writer
from tests.expr.spark_cases import filters, table

ROWS = table().combine_chunks().to_batches()[0]
A, B, X = Column(("a",)), Column(("b",)), Column(("x",))


def eq(left: Expr, right: Expr) -> Comparison:
    return Comparison(ComparisonOp.EQ, left, right)


@pytest.mark.parametrize(
    ("sql", "tree"),
    [
        ("a = 1", eq(A, literal(1))),
        ("a.b.`c.d` = 1", eq(Column(("a", "b", "c.d")), literal(1))),
        ("`tick``s` = 1", eq(Column(("tick`s",)), literal(1))),
        ("a or b and not x", Or((A, And((B, Not(X)))))),
        ("(a or b) and x", And((Or((A, B)), X))),
        ("not a = b", Not(eq(A, B))),
        ("! a = b", Not(eq(A, B))),
        ("a between 1 and 2 and b", And((Comparison(ComparisonOp.GE, A, literal(1)), Comparison(ComparisonOp.LE, A, literal(2)), B))),
        ("a not in (1, null)", Not(In(A, (literal(1), NULL)))),
        ("a is not null", Not(IsNull(A))),
        ("a is true", Comparison(ComparisonOp.NULL_SAFE_EQ, A, TRUE)),
        ("a + b * x - 1", Arithmetic(ArithmeticOp.SUBTRACT, Arithmetic(ArithmeticOp.ADD, A, Arithmetic(ArithmeticOp.MULTIPLY, B, X)), literal(1))),
        ("-a % 2", Arithmetic(ArithmeticOp.REMAINDER, Negate(A), literal(2))),
        ("a = -9223372036854775808", eq(A, literal(-(2**63)))),
        ("a = 1.50", eq(A, literal(Decimal("1.50")))),
        ("a = 1.5e0", eq(A, literal(1.5))),
        ("a = .5D", eq(A, literal(0.5))),
        ("a = 0.1F", eq(A, Literal(0.10000000149011612, pa.float32()))),
        ("a = 5BD", eq(A, literal(Decimal(5)))),
        ("a = 18446744073709551615", eq(A, literal(2**64 - 1))),
        ("a = 'it''s' ' \\'ok\\' \\u00e9\\n'", eq(A, literal("it's 'ok' é\n"))),
        ('a = r"\\d"', eq(A, literal("\\d"))),
        ("a = x'0aF'", eq(A, literal(b"\x00\xaf"))),
        ("a = date '2024-2-3'", eq(A, literal(datetime.date(2024, 2, 3)))),
        ("a = timestamp '2024-02-03 04:05:06.7+01:00'", eq(A, literal(datetime.datetime(2024, 2, 3, 3, 5, 6, 700000, datetime.timezone.utc)))),
        ("a = timestamp_ntz '2024-02-03'", eq(A, literal(datetime.datetime(2024, 2, 3)))),
        ("a = time '04:05:06'", eq(A, literal(datetime.time(4, 5, 6)))),
        ("a < interval '90' minutes", Comparison(ComparisonOp.LT, A, literal(datetime.timedelta(minutes=90)))),
        ("user > `order` and end", And((Comparison(ComparisonOp.GT, Column(("user",)), Column(("order",))), Column(("end",))))),
        ("date = timestamp", eq(Column(("date",)), Column(("timestamp",)))),
        ("a like 'x%' escape '!'", Like(A, "x%", "!")),
        ("startswith(a, 'x')", StringMatch(StringMatchOp.STARTS_WITH, A, "x")),
        ("starts_with(a, 'x')", StringMatch(StringMatchOp.STARTS_WITH, A, "x")),
        ("ends_with(a, 'x')", StringMatch(StringMatchOp.ENDS_WITH, A, "x")),
        ("array_contains(a, 'x')", ArrayContains(A, literal("x"))),
        ("array_has(a, 1) and x", And((ArrayContains(A, literal(1)), X))),
        ("arrays_overlap(a, array(1, 2))", Or((ArrayContains(A, literal(1)), ArrayContains(A, literal(2))))),
        ("array_has_any(a, array(1)) or x", Or((ArrayContains(A, literal(1)), X))),
        ("list_has_any(a, [1]) or x", Or((ArrayContains(A, literal(1)), X))),
        ("array_has_all(a, ['x', (2)]) and x", And((And((ArrayContains(A, literal("x")), ArrayContains(A, literal(2)))), X))),
        ("list_contains(a, 1) or list_has_all(a, make_array(2))", Or((ArrayContains(A, literal(1)), ArrayContains(A, literal(2))))),
        ("not array_has_all(a, array(1, 2))", Not(And((ArrayContains(A, literal(1)), ArrayContains(A, literal(2)))))),
        ("try_cast(a as decimal(5,2)) = 1", eq(Cast(A, pa.decimal128(5, 2), is_try=True), literal(1))),
        ("a::bigint = 1", eq(Cast(A, pa.int64()), literal(1))),
        ("substring(a from 2 for 3) = 'x'", eq(Function(FunctionName.SUBSTRING, (A, literal(2), literal(3))), literal("x"))),
        ("concat(a, 'x', b) = x", eq(Function(FunctionName.CONCAT, (A, literal("x"), B)), X)),
        ("a || 'x' || b = x", eq(Function(FunctionName.CONCAT, (Function(FunctionName.CONCAT, (A, literal("x"))), B)), X)),
        ("st['x'].y[\"z w\"] = 1", eq(Column(("st", "x", "y", "z w")), literal(1))),
        ("get_field(a.b, 'c') = 1", eq(Column(("a", "b", "c")), literal(1))),
        ("case when a then b else x end", Function(FunctionName.IF, (A, B, X))),
        ("case a when b then x end is null", IsNull(Function(FunctionName.IF, (eq(A, B), X, NULL)))),
        ("when = 1 or then", Or((eq(Column(("when",)), literal(1)), Column(("then",))))),
        ("a rlike 'x'", Function(FunctionName.REGEXP_LIKE, (A, literal("x")))),
        ("a not rlike 'x'", Not(Function(FunctionName.REGEXP_LIKE, (A, literal("x"))))),
        ("extract(year from a) = 1", eq(Function(FunctionName.YEAR, (A,)), literal(1))),
        ("date_part('DOY', a) = 1", eq(Function(FunctionName.DAYOFYEAR, (A,)), literal(1))),
        ("a < interval '90 minutes' and b", And((Comparison(ComparisonOp.LT, A, literal(datetime.timedelta(minutes=90))), B))),
        ("array_length(a) = size(b)", eq(Function(FunctionName.CARDINALITY, (A,)), Function(FunctionName.CARDINALITY, (B,)))),
        ("nullif(a, b)", Function(FunctionName.IF, (eq(A, B), NULL, A))),
        ("a /* c */ = -- d\n 1", eq(A, literal(1))),
        ("a = b = x", eq(eq(A, B), X)),
        ("a < b = x", eq(Comparison(ComparisonOp.LT, A, B), X)),
        ("a || 'x' - 1", Arithmetic(ArithmeticOp.SUBTRACT, Function(FunctionName.CONCAT, (A, literal("x"))), literal(1))),
        ("1e5-2 = a", eq(Arithmetic(ArithmeticOp.SUBTRACT, literal(1e5), literal(2)), A)),
        ("-5::string = - - 5", eq(Cast(literal(-5), pa.string()), Negate(literal(-5)))),
        ("-(5) = -a::int", eq(Negate(literal(5)), Negate(Cast(A, pa.int32())))),
        ("a ! in (1) and b is ! null", And((Not(In(A, (literal(1),))), Not(IsNull(B))))),
        ("a is not distinct from as", Comparison(ComparisonOp.NULL_SAFE_EQ, A, Column(("as",)))),
        ("substring(from from 2) = r'a\\' 'b'", eq(Function(FunctionName.SUBSTRING, (Column(("from",)), literal(2))), literal("a\\b"))),
        ("a['x'][r'y'].`z` = 1", eq(Column(("a", "x", "y", "z")), literal(1))),
        ("a = date '2024' '-02-03'", eq(A, literal(datetime.date(2024, 2, 3)))),
        ("a like ('x%') escape '!'", Like(A, "x%", "!")),
        ("a\u00a0=\u30001", eq(A, literal(1))),
    ],
)  # fmt: skip
def test_meaning(sql: str, tree: Expr) -> None:
    assert parse(sql) == tree


def test_timestamp_without_zone_is_in_the_sessions_zone() -> None:
    paris = parse("a = timestamp '2024-07-01 12:00:00'", time_zone="Europe/Paris")
    assert paris == parse("a = timestamp '2024-07-01 10:00:00Z'")
    assert parse("a = timestamp '2024-07-01 12:00:00 UTC'", time_zone="Europe/Paris") == parse(
        "a = timestamp '2024-07-01 12:00:00'"
    )


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("", "unexpected end of the filter at line 1, column 1"),
        ("a =\n = 1", "unexpected '=' at line 2, column 2"),
        ("a b", "unexpected 'b' at line 1, column 3"),
        ("a = 'x", "unclosed ' at line 1, column 5"),
        ("`a = 1", "unclosed ` at line 1, column 1"),
        ("a = 1 /* x", "unclosed quote or comment"),
        ("a = 1; drop table b", "unexpected ';' at line 1, column 6"),
        ("select 1", "SELECT is not supported"),
        ("a in (select b from c)", "SELECT is not supported in a filter at line 1, column 7"),
        ("exists(select 1)", "EXISTS is not supported in a filter at line 1, column 1"),
        ("case when a then b", "unexpected end of the filter"),
        ("case a b end", "WHEN is missing before 'b' at line 1, column 8"),
        ("case when a then b end else c", "unexpected 'else'"),
        ("case end", "unexpected 'end'"),
        ("case a end", "WHEN is missing before 'end'"),
        ("case when a end", "THEN is missing before 'end'"),
        ("case when end then a end", "unexpected 'end' at line 1, column 11"),
        ("l[1] = 1", "write array_element(x, 1) for the first one, at line 1, column 3 of the filter"),
        ("l[x] = 1", "write array_element(x, 1)"),
        ("st['x' = 1", "unexpected '='"),
        ("st['x'", "unexpected end of the filter"),
        ("st['x' 'y'] = 1", "unexpected \"'y'\""),
        ("date_part('dow', a) = 1", "write dayofweek(x)"),
        ("date_part('second', a) = 1", "write second(x)"),
        ("date_part(a, b) = 1", "date_part takes the name of a part, got a"),
        ("extract(era from a) = 1", "extract of 'era' is not supported"),
        ("ltrim(a, 'x') = 'y'", "ltrim takes 1 arguments, got 2"),
        ("a > now() - interval '1 month'", "INTERVAL takes a number of one of DAY"),
        ("sum(a) > 1", "function sum is not supported in a filter at line 1, column 1"),
        ("myudf(a)", "function myudf is not supported"),
        ("count(*) > 1", "function count is not supported"),
        ("lower(distinct a) = 'x'", "distinct is not supported here"),
        ("a | b", "operator | is not supported"),
        ("a div 2", "operator DIV is not supported"),
        ("a & 1 = 1", "operator & is not supported"),
        ("a[0] = 1", "write array_element(x, 1)"),
        ("(a)[0] = 1", "element of an array"),
        ("array_has_any(a, [1)", "unexpected ')'"),
        ("array_has_any(a, (1])", "unexpected ']'"),
        ("array_has_any(a, [1]", ""),
        ("array_has_any(a, [1 2])", "unexpected '2'"),
        ("array_has_any(a, [])", "array(...) of one constant or more"),
        ("a = ?", "a parameter is not supported"),
        ("a = :p", "a parameter"),
        ("a is nan", "IS takes NULL"),
        ("a between symmetric 1 and 2", "AND is missing before '1' at line 1, column 21"),
        ("cast(a as int format 'x') = 1", "unexpected 'format' at line 1, column 15"),
        ("cast(a as array<int>) = 1", "unexpected 'array' at line 1, column 11"),
        ("cast(a as varchar) = 1", "unexpected 'varchar' at line 1, column 11"),
        ("cast(a as varchar(3)) = 1", "unexpected 'varchar' at line 1, column 11"),
        ("cast(a as decimal(39, 0)) = 1", "there is no type DECIMAL(39, 0)"),
        ("a like b", "the pattern of LIKE must be a string constant"),
        ("a like 'x\\\\y'", "must be followed by"),
        ("a like 'x' escape 'ab'", "the escape of LIKE is one character"),
        ("a in ()", "IN () has no values"),
        ("(a, b) = (1, 2)", "a list of values in parentheses is not supported in a filter at line 1, column 3"),
        ("a.* = 1", "a.* is not supported in a filter: a path has names only, at line 1, column 1"),
        ("a = 1e999", "out of range"),
        ("a = 200Y", "200Y is out of range"),
        ("a = 9223372036854775808L", "out of range"),
        ("a = .50.5F", "unexpected '.5F'"),
        ("a = 0x1F", "unexpected '0x1F' at line 1, column 5"),
        ("a = x'zz'", "'zz' is no X"),
        ("a = date '2024-02-30'", "'2024-02-30' is no DATE at line 1, column 5"),
        ("a = timestamp 'now'", "is no TIMESTAMP"),
        ("a = timestamp '2024-01-01 00:00:00 Nowhere/Town'", "is no TIMESTAMP"),
        ("a = interval '1' year", "INTERVAL takes a number of one of"),
        ("a = interval '1-2' year to month", "INTERVAL takes a number of one of"),
        ("a = interval 'x' day", "INTERVAL takes a number of one of"),
        ("current_date.x = a", "current_date.x is not supported"),
        ("all = 1", "all is not supported here; a column of that name stands between backticks"),
        ("abs()", "abs takes 1 arguments, got 0"),
        ("a not 5", "unexpected '"),
        ("a collate utf8_lcase = 'x'", "operator COLLATE is not supported"),
        ("a = '\\ud800'", "is no character"),
        ("a rlike 'x' escape '!'", "only LIKE and ILIKE have an ESCAPE"),
        ("a not rlike 'x' escape '!'", "only LIKE and ILIKE have an ESCAPE"),
        ("+ a", "unexpected '+'"),
        ("a not", "unexpected end of the filter"),
        ("a = not b", "parentheses are needed around NOT at line 1, column 5"),
        ("a = b is null", "a predicate beside a comparison needs parentheses, as in (a = b) IS NULL, at line 1"),
        ("a is null = b", "a predicate beside a comparison needs parentheses"),
        ("a in (b) in (c)", "a predicate beside a comparison needs parentheses"),
        ("a = b < x", "a predicate beside a comparison needs parentheses"),
        ("a <=> b = x", "a predicate beside a comparison needs parentheses"),
        ("a between 1 and 2 = b", "a predicate beside a comparison needs parentheses"),
        ("a in (1,)", "unexpected ')'"),
        ("abs(,a)", "unexpected ','"),
        ("a.case = 1", "unexpected 'case'"),
        ("a.and = 1", "a.and is not supported in a filter"),
        ("a.f(b)", "function a.f is not supported"),
        ("`abs`(a)", "function `abs` is not supported"),
        ("a['x'", "unexpected end of the filter"),
        ("a /* b /* c */ */ = 1", "a comment that Spark does not know, at line 1, column 3"),
        ("a = --x\\\n1", "a comment that Spark does not know, at line 1, column 5"),
        ("a = 1and b", "unexpected '1and'"),
        ("a = 1'x'", "unexpected"),
        ("a = `` ", "unclosed `"),
        ("cast(a as decimal())", "unexpected ')'"),
        ("cast(a as decimal(5, 2, 1))", "unexpected ','"),
        ("cast(a, int)", "AS is missing before ','"),
        ("a::`int` = 1", "unexpected '`int`'"),
    ],
)
def test_refused(sql: str, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse(sql)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "piece", ["(", "not ", "- ", "abs(", "cast(", "case when ", "a = (", "a - (", "[", "not - (", "a in ("]
)
@pytest.mark.parametrize("times", [MAX_DEPTH + 1, 20_000])
def test_deep_nesting_is_refused(piece: str, times: int) -> None:
    with pytest.raises(InvalidInputError, match=r"nest|levels"):
        parse(piece * times + "a")


@pytest.mark.slow
@pytest.mark.parametrize("link", [" + ", " = ", " / "])
def test_long_chains_are_refused(link: str) -> None:
    parse(link.join("a" * (MAX_TREE_DEPTH - 1)))
    with pytest.raises(InvalidInputError, match="chains or nests"):
        parse(link.join(["a"] * 10_000))


@pytest.mark.slow
def test_and_or_in_take_any_number_of_terms() -> None:
    many = parse(" or ".join(f"a = {k} and b" for k in range(10_000)))
    assert isinstance(many, Or)
    assert len(many.terms) == 10_000
    assert parse(many.to_sql()) == many
    assert len(parse(f"a in ({','.join(map(str, range(100_000)))})").children()) == 100_001


def test_unknown_time_zone() -> None:
    with pytest.raises(InvalidInputError, match="unknown time zone 'Mars/Base'"):
        parse("a = 1", time_zone="Mars/Base")


@pytest.mark.parametrize("sql", filters())
def test_written_and_read_again(sql: str) -> None:
    tree = parse(sql)
    assert parse(tree.to_sql()) == tree
    assert pickle.loads(pickle.dumps(tree)) == tree


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_random_filters_mean_the_tree_that_they_were_written_from(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(200):
        sql, tree = Writer(rng).filter(rng.randrange(4))
        assert parse(sql) == tree, sql


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_mutated_filters_are_refused_or_mean_what_their_tree_says(seed: int) -> None:
    rng = random.Random(seed)
    num_read = 0
    for _ in range(200):
        sql, _ = Writer(rng).filter(rng.randrange(1, 4))
        pieces = re.findall(r"\s+|\w+|'[^']*'|[^\w\s]", sql)
        for _ in range(rng.randrange(1, 4)):
            place = rng.randrange(len(pieces) + 1)
            pieces[place : place + rng.randrange(2)] = rng.choices([" ", *MUTATIONS], k=rng.randrange(3))
        try:
            tree = parse("".join(pieces))
        except InvalidInputError:
            continue
        num_read += 1
        assert parse(tree.to_sql()) == tree, "".join(pieces)
    assert num_read > 20


MUTATIONS = [
    *("and", "OR", "not", "is", "in", "between", "like", "rlike", "null", "case", "when", "then", "end", "as", "from"),
    *("distinct", "escape", "interval", "date", "cast", "abs", "array", "unknown", "all", "a", "r", "x", "`b`", "''"),
    *("=", "<", "<=>", "!", "-", "+", "*", "/", "||", "::", "(", ")", "[", "]", ",", ".", "1", "5L", "2.5", ".5", "1e"),
    *("'", '"', "`", "\\", "--", "/*", "*/", "'a'", "\n", ";", "?", ":", "&", "é"),
]
"""Pieces that are put into filters."""


@pytest.mark.parametrize("sql", filters())
def test_sqlglot_reads_our_text_alike(sql: str) -> None:
    """What sqlglot's Spark dialect understood of our text, written its own way, keeps the same rows."""
    tree = parse(sql)
    rewritten = sqlglot.parse_one(tree.to_sql(), dialect="spark").sql("spark")
    assert _kept(parse(rewritten)) == _kept(tree)


def _kept(tree: Expr) -> list[bool] | None:
    """Which rows the filter keeps; None if it fails on a value."""
    try:
        kept: list[bool] = evaluate_filter(tree, ROWS).to_pylist()
    except InvalidInputError:
        return None
    return kept


# Any tree at all

names = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=6) | st.sampled_from(
    ["a", "A", "date", "order", "a.b", "`", "and", "x'", "null", "0a", " "]
)
columns = st.lists(names, min_size=1, max_size=3).map(lambda path: Column(tuple(path)))
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=8) | st.sampled_from(
    ["'", "\\", "\\%", '"', "\012", "--", "''"]
)
micros = st.integers(-(2**62), 2**62)
literals = st.one_of(
    st.just(NULL),
    st.booleans().map(literal),
    st.integers(-(10**25), 10**25).map(literal),
    st.integers().filter(lambda number: abs(number) < 10**38).map(lambda number: literal(Decimal(number))),
    st.floats().map(literal),
    st.floats(width=32).map(lambda value: Literal(value, pa.float32())),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20, places=7).map(literal),
    texts.map(literal),
    st.binary(max_size=5).map(literal),
    st.integers(-1_000_000, 2_000_000_000 // 1000).map(lambda days: Literal(days, pa.date32())),
    micros.map(lambda value: Literal(value, pa.timestamp("us", "UTC"))),
    micros.map(lambda value: Literal(value, pa.timestamp("us"))),
    micros.filter(lambda value: value % 1000 != 0).map(lambda value: Literal(value, pa.timestamp("ns"))),
    st.integers(0, 86_399_999_999).map(lambda value: Literal(value, pa.time64("us"))),
    micros.map(lambda value: Literal(value, pa.duration("us"))),
)
types = st.sampled_from(
    [pa.int8(), pa.int64(), pa.float64(), pa.string(), pa.date32(), pa.decimal128(9, 3), pa.timestamp("us")]
)
patterns = st.text(st.sampled_from("a%_é"), max_size=6)


def _trees(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Comparison, st.sampled_from(ComparisonOp), inner, inner),
        st.builds(In, inner, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(IsNull, inner),
        st.builds(IsNan, inner),
        several.map(And),
        several.map(Or),
        st.builds(Not, inner),
        st.builds(StringMatch, st.sampled_from(StringMatchOp), inner, texts),
        st.builds(ArrayContains, inner, literals.filter(lambda item: item.value is not None)),
        st.builds(Like, inner, patterns, st.sampled_from(["\\", "!", "'"])),
        st.builds(Arithmetic, st.sampled_from(ArithmeticOp), inner, inner),
        st.builds(Negate, inner),
        st.builds(Cast, inner, types, st.booleans()),
        st.builds(Function, st.just(FunctionName.COALESCE), several),
        st.builds(Function, st.sampled_from([FunctionName.UPPER, FunctionName.ROUND]), st.tuples(inner)),
        st.builds(Function, st.just(FunctionName.REGEXP_MATCH), st.tuples(inner, inner)),
        st.builds(Function, st.just(FunctionName.IF), st.tuples(inner, inner, inner)),
    )


trees: st.SearchStrategy[Expr] = st.recursive(columns | literals, _trees, max_leaves=8)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(trees)
def test_every_tree_is_read_as_it_was_written(tree: Expr) -> None:
    assert parse(tree.to_sql()) == tree
    assert hash(parse(tree.to_sql())) == hash(tree)


@settings(max_examples=200, deadline=None)
@given(
    st.text(st.sampled_from("ab1.'\"`()=<>!-+*/% \n,\\eENO") | st.characters(exclude_categories=("Cs",)), max_size=20)
)
def test_any_text_is_read_or_refused(sql: str) -> None:
    try:
        tree = parse(sql)
    except InvalidInputError:
        return
    assert parse(tree.to_sql()) == tree


def test_referenced_columns() -> None:
    tree = parse("a > 1 and (lower(`b.c`) in ('x', d.e) or cast(a as int) is null)")
    assert referenced_columns(tree) == {("a",), ("b.c",), ("d", "e")}


def test_nan_and_signed_zero_literals_are_told_apart() -> None:
    assert literal(math.nan) == literal(math.nan)
    assert literal(0.0) != literal(-0.0)
    assert literal(1) != literal(1.0) != literal(True)


def test_joined_texts() -> None:
    large = pa.array(["1", "2", None, ""], pa.large_string())
    batch = pa.record_batch({"a": pa.array(["x", None, "z", "ä"]), "b": large, "n": [1, 2, 3, 4]})

    def values(sql: str) -> list[str | None]:
        found: list[str | None] = evaluate(parse(sql), batch).to_pylist()
        return found

    assert values("a || '-' || b") == ["x-1", None, None, "ä-"]
    assert values("concat(a, cast(n + 1 as string))") == ["x2", None, "z4", "ä5"]
    assert values("concat('p', 'q')") == ["pq"] * 4
    assert values("concat(a, null)") == [None] * 4
    for sql in ("a || n", "concat(n, a)", "concat()", "a || 'x' + 1"):
        with pytest.raises(InvalidInputError):
            values(sql)
