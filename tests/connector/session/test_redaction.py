"""Credentials of stores and catalogs in what Spark shows: settings, plans and event logs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lance_spark
from lance_spark.spark import redaction
from lance_spark.spark.redaction import OF_OPTIONS, OF_SETTINGS
from tests.support.connector.script_session import printed

HIDDEN = "*********(redacted)"
SECRET_OPTIONS = [
    "access_key_id",
    "aws_access_key_id",
    "aws_secret_access_key",
    "aws_session_token",
    "key",
    "secret",
    "base_1.key",
    "base_12.aws_access_key_id",
    "client_kwargs",
    "config_kwargs",
    "s3_additional_kwargs",
    "proxy_url",
    "access_key",
    "account_key",
    "azure_storage_account_key",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "azure_storage_master_key",
    "sas_key",
    "sas_token",
    "client_secret",
    "connection_string",
    "service_account_key",
    "google_service_account_key",
    "google_storage_token",
]
SECRET_SETTINGS = [f"storage.{name}" for name in SECRET_OPTIONS] + ["header.authorization", "headers.X-Api"]
PLAIN_OPTIONS = ["aws_region", "aws_endpoint", "account_name", "timeout", "sse_kms_key_id", "google_service_account"]


def redacted(spark: SparkSession, names: list[str]) -> dict[str, str]:
    """The values that the *Environment* tab shows for settings with the value ``visible``."""
    jvm = spark._jvm
    tuples = jvm.java.util.ArrayList()
    for name in names:
        tuples.add(jvm.scala.Tuple2(name, "visible"))
    conf = spark._jsc.sc().conf()
    shown = jvm.org.apache.spark.util.Utils.redact(conf, jvm.PythonUtils.toSeq(tuples))
    return {shown.apply(at)._1(): shown.apply(at)._2() for at in range(shown.size())}


def test_settings_in_the_environment_tab(spark: SparkSession) -> None:
    prefix = "spark.sql.catalog.lance"
    hidden = [f"{prefix}.{name}" for name in SECRET_SETTINGS] + ["spark.site.password", "spark.site.token"]
    plain = [f"{prefix}.storage.{name}" for name in PLAIN_OPTIONS] + [prefix, f"{prefix}.root", "spark.app.name"]
    assert redacted(spark, hidden) == dict.fromkeys(hidden, HIDDEN)
    assert redacted(spark, plain) == dict.fromkeys(plain, "visible")


def test_defaults_are_those_of_spark(spark: SparkSession) -> None:
    entries = getattr(getattr(spark._jvm.org.apache.spark.internal.config, "package$"), "MODULE$")
    of_spark = entries.SECRET_REDACTION_PATTERN().defaultValueString()
    # Spark 4.0.0 has no "credential" yet.
    assert redaction._OF_SPARK[OF_SETTINGS] in (of_spark, f"{of_spark}|credential")
    fresh = spark.newSession()
    fresh.conf.unset(OF_OPTIONS)
    entry = spark._jvm.org.apache.spark.sql.internal.SQLConf.SQL_OPTIONS_REDACTION_PATTERN()
    assert redaction._OF_SPARK[OF_OPTIONS] == entry.defaultValueString()


@pytest.fixture
def plain_session(spark: SparkSession) -> SparkSession:
    """A session whose options are redacted as Spark does without this package."""
    session = spark.newSession()
    session.conf.set(OF_OPTIONS, "(?i)url|of_the_site")
    return session


def test_install_adds_to_the_pattern_of_the_session(plain_session: SparkSession, tmp_path: Path) -> None:
    secrets = {f"storage.{name}": "visible" for name in ("azure_storage_account_key", "connection_string")}
    lance_spark.install(plain_session, "installed", root=tmp_path, **secrets)
    lance_spark.install(plain_session, "again", root=tmp_path)
    pattern = plain_session.conf.get(OF_OPTIONS)
    assert pattern is not None
    assert pattern.count("connection_string") == pattern.count("of_the_site") == 1
    for name in secrets:
        (row,) = plain_session.sql(f"SET spark.sql.catalog.installed.{name}").collect()
        assert row.value == HIDDEN
    plain_session.conf.set("spark.app.of_the_site", "visible")
    plain_session.conf.set("spark.app.other", "visible")
    assert plain_session.sql("SET spark.app.of_the_site").first()["value"] == HIDDEN  # type: ignore[index]
    assert plain_session.sql("SET spark.app.other").first()["value"] == "visible"  # type: ignore[index]


def test_options_in_plans(spark: SparkSession, uri: str) -> None:
    spark.range(3).write.format("lance").save(uri)
    options = {f"storage.{name}": "visible" for name in SECRET_OPTIONS if not name.startswith("base_")}
    plain = {"storage.aws_region": "shown-region"}
    stream = spark.readStream.format("lance").options(**options, **plain).load(uri)
    frames = [stream, spark.read.format("lance").options(**options, **plain).load(uri)]
    texts = [spark._jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "extended") for frame in frames]
    assert "shown-region" in texts[0]
    query = f"SELECT * FROM lance.`{uri}` WITH (`storage.account_key` = 'visible')"
    insert = f"INSERT INTO lance.`{uri}` WITH (`storage.sas_key` = 'visible') VALUES (1L)"
    for statement in (query, insert):
        texts.append(spark.sql(f"EXPLAIN EXTENDED {statement}").collect()[0][0])
        assert HIDDEN in texts[-1]
    assert [text for text in texts if "visible" in text] == []


EVENTS = """
spark.sql("CREATE TABLE lance.t AS SELECT 1 AS id")
spark.table("lance.t").groupBy("id").count().collect()
"""


@pytest.mark.slow
def test_event_log(jar: Path, tmp_path: Path) -> None:
    log = tmp_path / "events"
    log.mkdir()
    printed(
        jar,
        tmp_path / "root",
        EVENTS,
        f"spark.eventLog.dir={log.as_uri()}",
        "spark.eventLog.enabled=true",
        "spark.eventLog.compress=false",
        "spark.redaction.regex=(?i)of_the_site",
        "spark.sql.catalog.lance.storage.account_key=visible-1",
        "spark.sql.catalog.lance.storage.connection_string=visible-2",
        "spark.app.of_the_site=visible-3",
        "spark.app.other=shown",
    )
    text = "".join(path.read_text() for path in log.rglob("*") if path.is_file())
    assert "SparkListenerJobStart" in text
    assert '"spark.app.other":"shown"' in text
    assert "visible-" not in text
