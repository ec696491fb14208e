"""Settings of Spark's files and of spark-submit's arguments, and what `configure` adds to them. No JVM is needed."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.spark import session, submitted

EXTENSIONS = "spark.sql.extensions"
CLASS_PATH = "spark.driver.extraClassPath"
OURS = "io.lancespark.LanceExtensions"


@pytest.fixture(autouse=True)
def conf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of Spark's files, for a process without a JVM."""
    monkeypatch.setattr(session, "running_jvm", lambda: None)
    monkeypatch.setattr(session, "jar_path", lambda version: "/ours.jar")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    return tmp_path


def configured(**settings: str) -> dict[str, str]:
    builder = SparkSession.Builder()
    for name, value in settings.items():
        builder = builder.config(name, value)
    return dict(lance_spark.configure(builder, root="/a")._options)


def defaults(folder: Path, text: str) -> None:
    (folder / "spark-defaults.conf").write_text(text)


def test_lists_of_the_file_stay(conf: Path) -> None:
    defaults(conf, f"spark.jars /site/delta.jar\n{EXTENSIONS} a.Delta,b.Iceberg\n{CLASS_PATH}=/site/jdbc.jar\n")
    made = configured()
    assert made[EXTENSIONS] == f"a.Delta,b.Iceberg,{OURS}"
    assert made[CLASS_PATH] == "/site/jdbc.jar:/ours.jar"
    assert not {"spark.jars", "spark.jars.packages"} & set(made)


def test_lists_of_the_builder_stay_and_count_more_than_the_file(conf: Path) -> None:
    defaults(conf, f"{EXTENSIONS} a.Delta\n")
    made = configured(**{EXTENSIONS: "b.Iceberg", "spark.jars": "/b.jar", "spark.jars.packages": "c:d:1"})
    assert made[EXTENSIONS] == f"b.Iceberg,{OURS}"
    assert (made["spark.jars"], made["spark.jars.packages"]) == ("/b.jar", "c:d:1")


def test_nothing_is_added_twice(conf: Path) -> None:
    defaults(conf, f"{EXTENSIONS} {OURS}, a.Delta\n{CLASS_PATH} /ours.jar\n")
    builder = lance_spark.configure(SparkSession.Builder(), root="/a")
    made = dict(lance_spark.configure(builder, "second", root="/b")._options)
    assert made[EXTENSIONS] == f"{OURS}, a.Delta"
    assert made[CLASS_PATH] == "/ours.jar"


def test_arguments_of_spark_submit_stay(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    defaults(conf, f"{EXTENSIONS} of.File\n")
    arguments = f"--jars x.jar --packages g:a:1 --verbose -c {EXTENSIONS}=of.Arguments --driver-class-path '/a b.jar'"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"{arguments} pyspark-shell --conf {EXTENSIONS}=of.TheProgram")
    made = configured()
    assert made[EXTENSIONS] == f"of.Arguments,{OURS}"
    assert made[CLASS_PATH] == "/a b.jar:/ours.jar"
    # The launcher lets these arguments win over the builder.
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == (
        f"--jars x.jar --packages g:a:1 --verbose -c {EXTENSIONS}=of.Arguments "
        f"--driver-class-path '/a b.jar:/ours.jar' pyspark-shell --conf {EXTENSIONS}=of.TheProgram"
    )
    assert configured()[CLASS_PATH] == "/a b.jar:/ours.jar"
    assert os.environ["PYSPARK_SUBMIT_ARGS"].count("/ours.jar") == 1


def test_class_path_given_as_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--conf={CLASS_PATH}=/x.jar pyspark-shell")
    assert configured()[CLASS_PATH] == "/x.jar:/ours.jar"
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == f"--conf={CLASS_PATH}=/x.jar:/ours.jar pyspark-shell"


@pytest.mark.parametrize(("more", "expected"), [("", "p.P"), ("--load-spark-defaults ", "p.P")])
def test_properties_file_takes_the_place_of_the_defaults(
    conf: Path, monkeypatch: pytest.MonkeyPatch, more: str, expected: str
) -> None:
    defaults(conf, f"{EXTENSIONS} of.File\n{CLASS_PATH} /site.jar")
    (conf / "mine.properties").write_text(f"{EXTENSIONS}: p.P\n")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"{more}--properties-file {conf}/mine.properties pyspark-shell")
    made = configured()
    assert made[EXTENSIONS] == f"{expected},{OURS}"
    assert made[CLASS_PATH] == ("/site.jar:/ours.jar" if more else "/ours.jar")


def test_file_in_the_home_of_spark(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (conf / "home" / "conf").mkdir(parents=True)
    defaults(conf / "home" / "conf", f"{EXTENSIONS} of.Home")
    monkeypatch.delenv("SPARK_CONF_DIR")
    monkeypatch.setenv("SPARK_HOME", str(conf / "home"))
    assert configured()[EXTENSIONS] == f"of.Home,{OURS}"


def test_file_is_read_as_java_reads_properties(conf: Path) -> None:
    text = (
        "# spark.a 1\n! spark.b 2\n\n  spark.c   three words  \nspark.d=4\nspark.e : 5\nspark.f = a,\\\n   b,\\\n   c\n"
        "spark.g\\:h x\\u0041\\ty\nspark.i\nspark.j=a=b\nspark.k \\\\\nspark.l last\n"
    )
    defaults(conf, text)
    assert submitted.submitted_settings(None) == {
        "spark.c": "three words",
        "spark.d": "4",
        "spark.e": "5",
        "spark.f": "a,b,c",
        "spark.g:h": "xA\ty",
        "spark.i": "",
        "spark.j": "a=b",
        "spark.k": "\\",
        "spark.l": "last",
    }


def test_what_cannot_be_read_is_named(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (conf / "spark-defaults.conf").write_bytes(b"spark.a \xff")
    with pytest.raises(InvalidInputError, match=r"the settings in .*spark-defaults\.conf cannot be read"):
        configured()
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf 'a=b pyspark-shell")
    with pytest.raises(InvalidInputError, match=r"PYSPARK_SUBMIT_ARGS is .*No closing quotation"):
        configured()


def test_settings_that_are_no_lists_stay_as_the_user_has_them(conf: Path) -> None:
    sockets, python = "spark.python.unix.domain.socket.enabled", "spark.sql.lance.defaultPython"
    made = configured()
    assert (made[sockets], made[python]) == ("true", sys.executable)
    defaults(conf, f"{sockets} false\n{python} /opt/python\n")
    assert not {sockets, python} & set(configured())
    assert configured(**{python: "/mine"})[python] == "/mine"


def hides(pattern: str, *names: str) -> list[bool]:
    # Java's flags reach to the end of the group that they are in; Python has another notation for that.
    pattern = pattern.replace("(?:(?i)", "(?i:")
    return [re.search(pattern, f"spark.sql.catalog.lance.{name}") is not None for name in names]


@pytest.mark.parametrize("name", ["spark.redaction.regex", "spark.sql.redaction.options.regex"])
def test_patterns_of_hidden_settings_stay(conf: Path, name: str) -> None:
    asked = ("storage.account_key", "storage.AWS_Access_Key_Id", "header.authorization", "of_the_site", "site_too")
    assert hides(configured()[name], *asked) == [True, True, True, False, False]
    assert hides(configured(**{name: "site_too"})[name], *asked) == [True, True, True, False, True]
    defaults(conf, f"{name} (?i)OF_THE_SITE\n")
    made = configured()
    assert hides(made[name], *asked) == [True, True, True, True, False]
    assert hides(configured(**{name: "site_too"})[name], *asked) == [True, True, True, False, True]
    # Our flag is none of the pattern of the site.
    assert hides(configured(**{name: "A_SITE|B_SITE"})[name], "storage.SAS_KEY", "a_site") == [True, False]
    assert configured(**{name: made[name]})[name] == made[name]


def test_what_spark_hides_by_itself_stays_hidden() -> None:
    made = configured()
    names = ("client.SECRET", "password", "token", "access.key", "accesskey", "credential", "region")
    assert hides(made["spark.redaction.regex"], *names) == [True] * 6 + [False]
    assert hides(made["spark.sql.redaction.options.regex"], "jdbc_URL", "region") == [True, False]


def test_what_a_server_hides_is_left_to_it() -> None:
    made = configured(**{"spark.remote": "sc://far"})
    assert not {"spark.redaction.regex", "spark.sql.redaction.options.regex"} & set(made)


def test_python_of_a_client_is_not_that_of_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "spark.sql.lance.defaultPython" not in configured(**{"spark.remote": "sc://far"})
    assert "spark.sql.lance.defaultPython" in configured(**{"spark.remote": "local[2]"})
    monkeypatch.setenv("SPARK_REMOTE", "sc://far")
    assert "spark.sql.lance.defaultPython" not in configured()
