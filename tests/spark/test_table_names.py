"""Places of tables in messages become the names that the statement has looked up; nothing else changes."""

from __future__ import annotations

import pytest

from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.table_names import remember, remembering, with_names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/root/a$b has no tag 'x'", "lance.a.b has no tag 'x'"),
        ("there is no Lance table at /root/a$b.", "there is no Lance table at lance.a.b."),
        ("version 3 of /root/a$b/__manifest is gone", "version 3 of lance.a.b is gone"),
        ("/root/a$b$c and /root/a$b.lance and /root/a$b-1 are others", None),
        ("/root/a$b/data/1.lance is damaged", None),
        ("/other/root/a$b and s3://root/a$b are elsewhere", None),
    ],
)
def test_places_in_messages(text: str, expected: str | None) -> None:
    with remembering():
        remember("/root/a$b", "lance.a.b")
        assert with_names(text) == (expected or text)
    assert with_names(text) == text


def test_a_handle_brings_its_name() -> None:
    with remembering():
        TableHandle("/root/t", name="lance.t")
        TableHandle("/root/path")
        assert with_names("/root/t, /root/path") == "lance.t, /root/path"
    assert TableHandle("/root/t", branch="b").display_name == "/root/t (branch b)"
