# ruff: noqa: E501
"""Options: names, values, contradictions. No JVM is needed."""

from __future__ import annotations

import dataclasses
import datetime
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.expr.sql.parse import parse
from lance_spark.spark.options.catalog import CatalogOptions
from lance_spark.spark.options.foreign_names import OF_OTHERS
from lance_spark.spark.options.hadoop_names import _AZURE, _GOOGLE, _S3
from lance_spark.spark.options.names import READ, WRITE
from lance_spark.spark.options.options import ReadOptions, StateOptions, WriteOptions
from lance_spark.spark.options.property_names import check_properties
from lance_spark.spark.options.stream_names import SINK, SOURCE
from lance_spark.spark.streaming.options import SinkOptions, SourceOptions
from lance_spark.storage.azure import KNOWN as azure_names
from lance_spark.storage.gcs import KNOWN as gcs_names
from lance_spark.storage.s3.options import KNOWN as s3_names


def read(**options: str) -> ReadOptions:
    return ReadOptions.parse({"path": "/t", **options})


def write(**options: str) -> WriteOptions:
    return WriteOptions.parse({"path": "/t", **options})


def streamed(**options: str) -> SourceOptions:
    return SourceOptions.parse({"path": "/t", **options}, "/t")


def sunk(**options: str) -> SinkOptions:
    return SinkOptions.parse({"path": "/t", **options}, "/t")


@pytest.mark.parametrize(
    ("options", "attribute", "expected"),
    [
        ({}, "path", "/t"),
        ({"version": " 3 "}, "version", 3),
        ({"VERSION": "3"}, "version", 3),
        ({"tag": "v1"}, "tag", "v1"),
        ({"branch": "dev"}, "branch", "dev"),
        ({"timestamp": "2026-11-21T10:00:00Z"}, "timestamp", datetime.datetime(2026, 11, 21, 10, tzinfo=datetime.timezone.utc)),
        ({"batch_size": "100"}, "batch_size", 100),
        ({"max_batch_bytes": "1000"}, "max_batch_bytes", 1000),
        ({"topN_push_down": "false"}, "push_down_top_n", False),
        ({"columns": "id, point.x ,`a,b`.c"}, "columns", ("id", "point.x", "`a,b`.c")),
        ({"columns": "id"}, "columns", ("id",)),
        ({"filter": "id > 5"}, "filter", parse("id > 5")),
        ({"limit": "0"}, "limit", 0),
        ({"with_row_id": "TRUE"}, "with_row_id", True),
        ({"with_row_address": "false"}, "with_row_address", False),
        ({"pushDownFilters": "true"}, "push_down_filters", True),
        ({"pushdownfilters": "false"}, "push_down_filters", False),
        ({"target_partition_bytes": "1048576"}, "target_partition_bytes", 1 << 20),
        ({"storage.aws_region": "eu", "STORAGE.Key": "v"}, "storage_options", {"aws_region": "eu", "Key": "v"}),
    ],
)  # fmt: skip
def test_read_options(options: dict[str, str], attribute: str, expected: Any) -> None:
    assert getattr(read(**options), attribute) == expected


@pytest.mark.parametrize(
    ("options", "attribute", "expected"),
    [
        ({"max_row_per_file": "5"}, "max_rows_per_file", 5),
        ({"max_rows_per_file": "5"}, "max_rows_per_file", 5),
        ({"MAX_BYTES_PER_FILE": "5"}, "max_bytes_per_file", 5),
        ({"file_format_version": "2.1"}, "file_format_version", "2.1"),
        ({"data_storage_version": "stable"}, "file_format_version", "2.2"),
        ({"enable_stable_row_ids": "true"}, "enable_stable_row_ids", True),
        ({"branch": "dev"}, "branch", "dev"),
        ({"commit_message": "hello"}, "commit_message", "hello"),
        ({"distribution": "Range"}, "distribution", "range"),
        ({"max_rows_per_group": "5"}, "without_effect", ("max_rows_per_group",)),
        ({"Queue_Depth": "5", "batch_size": "1"}, "without_effect", ("Queue_Depth", "batch_size")),
        ({"use_queued_write_buffer": "true"}, "without_effect", ("use_queued_write_buffer",)),
        ({"use_large_var_types": "true"}, "use_large_var_types", True),
        ({"partitionOverwriteMode": "Static"}, "partition_overwrite_mode", "static"),
    ],
)
def test_write_options(options: dict[str, str], attribute: str, expected: Any) -> None:
    assert getattr(write(**options), attribute) == expected


@pytest.mark.parametrize(
    ("parse_options", "options", "message"),
    [
        (read, {"versoin": "3"}, "unknown option versoin; did you mean version?"),
        (read, {"colums": "a"}, "did you mean columns?"),
        (read, {"batchSize": "3"}, "did you mean batch_size?"),
        (read, {"storage_options": "x"}, "did you mean storage.?"),
        (read, {"zzz": "1"}, "unknown option zzz; known are "),
        (write, {"max_row_per_fil": "1"}, "did you mean max_row"),
        (write, {"version": "3"}, "option version is one of reads; leave it out"),
        (read, {"max_bytes_per_file": "3"}, "option max_bytes_per_file is one of writes; leave it out"),
        (read, {"paths": '["a", "b"]'}, "several paths"),
        (read, {"version": "0"}, "option version is '0', which is not an integer of at least 1"),
        (read, {"version": "x"}, "is 'x', which is not an integer"),
        (read, {"version": "1.0"}, "which is not an integer"),
        (read, {"version": ""}, "which is not an integer"),
        (read, {"version": "99999999999999999999"}, "which is not an integer"),
        (read, {"limit": "-1"}, "an integer of at least 0"),
        (read, {"limit": "1_0"}, "an integer of at least 0"),
        (read, {"batch_size": "0"}, "an integer of at least 1"),
        (read, {"with_row_id": "yes"}, "which is not true or false"),
        (read, {"timestamp": "yesterday"}, "which is not a time such as"),
        (read, {"tag": " "}, "a text that is not empty"),
        (read, {"columns": ""}, "a list of columns"),
        (read, {"columns": "a,,b"}, "a list of columns"),
        (read, {"columns": "a,`b"}, "a list of columns"),
        (read, {"filter": "id >"}, "option filter: unexpected end of the filter at line 1, column 5"),
        (read, {"version": "1", "tag": "v1"}, "version and tag both choose a version; keep one"),
        (read, {"version": "1", "timestamp": "2026-01-01"}, "version and timestamp both choose"),
        (write, {"max_row_per_file": "1", "max_rows_per_file": "2"}, "are the same; keep one"),
        (write, {"file_format_version": "2.1", "data_storage_version": "2.1"}, "are the same; keep one"),
        (write, {"file_format_version": "9"}, "unknown file format version '9'"),
        (write, {"max_bytes_per_file": "0"}, "an integer of at least 1"),
        (write, {"queue_depth": "x"}, "an integer of at least 1"),
        (write, {"use_queued_write_buffer": "x"}, "not true or false"),
        (write, {"partitionOverwriteMode": "none"}, "not static or dynamic"),
    ],
)  # fmt: skip
def test_refused(parse_options: Any, options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_options(**options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("startingVersion", "streaming reads; SELECT * FROM lance_changes"),
        ("readChangeFeed", "streaming reads; SELECT * FROM lance_changes"),
        ("ignoreDeletes", "streaming reads; leave it out"),
        ("ignoreChanges", "streaming reads; leave it out"),
        ("maxFilesPerTrigger", "streaming reads; leave it out"),
        ("sequence_by", "streaming writes; leave it out"),
    ],
)
def test_options_of_streams_are_refused_in_batches(name: str, instead: str) -> None:
    for parse_options in (read, write):
        with pytest.raises(UnsupportedFeatureError, match=f"option {name} is not supported here") as caught:
            parse_options(**{name: "true"})
        assert caught.value.feature == name
        assert instead in str(caught.value)


@pytest.mark.parametrize(
    ("parse_options", "name", "spelling"),
    [
        (write, "merge_schema", "mergeSchema"),
        (write, "mergeschemas", "mergeSchema"),
        (write, "partition_overwrite_mode", "partitionOverwriteMode"),
        (write, "txn_app_id", "txnAppId"),
        (write, "txnIgnoreOlder", "txnIgnoreOld"),
        (write, "txn_version", "txnVersion"),
        (write, "txnPlan", "txnPlanned"),
        (read, "versionsAsOf", "versionAsOf"),
        (read, "timestamp_as_of", "timestampAsOf"),
        (read, "push_down_filters", "pushDownFilters"),
        (read, "topn_pushdown", "topN_push_down"),
        (streamed, "ignoreDelete", "ignoreDeletes"),
        (streamed, "skip_change_commits", "skipChangeCommits"),
        (streamed, "maxFilesPerTriger", "maxFilesPerTrigger"),
        (sunk, "streaming_query_id", "streamingQueryId"),
    ],
)
def test_hints_have_the_spelling_of_the_pages(parse_options: Any, name: str, spelling: str) -> None:
    complaint = _complaint(parse_options, name)
    assert complaint.startswith(f"unknown option {name}; did you mean {spelling}?"), complaint


def test_lists_of_known_options_have_the_spelling_of_the_pages() -> None:
    known = _complaint(write, "zzzzzz").partition("known are ")[2].split(", ")
    assert {"mergeSchema", "partitionOverwriteMode", "txnAppId"} <= set(known)
    assert "mergeschema" not in known


def test_options_are_spelled_as_on_the_pages() -> None:
    docs = Path(__file__).parents[2] / "docs"
    pages = "\n".join((docs / page).read_text() for page in ("reference/options.md", "guides/streaming.md"))
    for option in (READ | WRITE | SOURCE | SINK).values():
        assert f"`{option.name}`" in pages, option.name


@pytest.mark.parametrize("name", [*OF_OTHERS, "replaceWhere", "overwriteSchema", "snapshot-property.team"])
def test_options_of_others_say_what_to_write(name: str) -> None:
    complaints = {_complaint(parse_options, name) for parse_options in (read, write)}
    (complaint,) = complaints
    start, _, instead = complaint.partition("; ")
    assert start == f"there is no option {name}"
    if instead.startswith("write "):
        ours = re.match(r"[\w.<>]+", instead.removeprefix("write "))
        assert ours is not None
        assert ours[0].startswith(("<column>", "INSERT")) or ours[0].lower() in READ | WRITE | SOURCE


@pytest.mark.parametrize("name", ["block_size", "index_cache_size", "metadata_cache_size", "write_mode"])
def test_options_of_the_jvm_connector_say_what_is_here_instead(name: str) -> None:
    for parse_options in (read, write):
        assert "bounds what" in _complaint(parse_options, name) or "leave it out" in _complaint(parse_options, name)


def test_a_table_without_partitions_has_no_distribution() -> None:
    write(distribution="none").check_without_partitions()
    for name in ("hash", "RANGE"):
        with pytest.raises(InvalidInputError, match="partitioned tables"):
            write(distribution=name).check_without_partitions()
    with pytest.raises(InvalidInputError, match="not none, hash or range"):
        write(distribution="sort")


@pytest.mark.parametrize("kind", [ReadOptions, WriteOptions])
def test_a_path_is_needed(kind: type[ReadOptions] | type[WriteOptions]) -> None:
    with pytest.raises(InvalidInputError, match="no path is given"):
        kind.parse({})
    with pytest.raises(InvalidInputError, match="session catalog"):
        kind.parse({"path": "/t", "owner": "me"})


def test_options_travel_to_tasks() -> None:
    options = read(version="3", filter="id > 5", **{"storage.key": "v"})
    assert pickle.loads(pickle.dumps(options)) == options
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.version = 4  # type: ignore[misc]


def test_every_option_is_documented() -> None:
    """Names in docs/reference/options.md and in the parser are the same."""
    text = (Path(__file__).parents[2] / "docs" / "reference" / "options.md").read_text()
    reads, writes = text.split("\n## Write\n")
    for part, parse_options in ((reads, read), (writes, write)):
        names = set(re.findall(r"`([a-zA-Z_]+)`", "\n".join(re.findall(r"^\|([^|]*)\|", part, re.MULTILINE))))
        assert names
        for name in names:
            assert "unknown option" not in _complaint(parse_options, name), name


@pytest.mark.parametrize("kind", ["read", "write"])
def test_defaults_on_the_page_are_those_of_the_code(kind: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "options.md").read_text()
    part, options, known = {
        "read": (text.partition("\n## Write\n")[0], read(), READ),
        "write": (text.partition("\n## Write\n")[2], write(), WRITE),
    }[kind]
    rows = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("| `")]
    shown = {name: row[1].strip() for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    plain = {name: default for name, default in shown.items() if re.fullmatch(r"true|false|\d+", default)}
    names = {name: known[name.lower()].attribute for name in plain if name.lower() in known}
    assert len(names) >= 4
    limits = {"max_rows_per_file": write().limits({}).max_rows}
    values = {name: limits.get(attribute or "", getattr(options, attribute or "")) for name, attribute in names.items()}
    assert {name: str(value).lower() for name, value in values.items()} == {name: plain[name] for name in names}


def _complaint(parse_options: Any, name: str) -> str:
    try:
        parse_options(**{name: "1"})
    except InvalidInputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("fs.s3a.access.key", r"storage\.aws_access_key_id$"),
        ("fs.s3a.secret.key", r"storage\.aws_secret_access_key$"),
        ("fs.s3a.session.token", r"storage\.aws_session_token$"),
        ("FS.S3A.Endpoint", r"storage\.aws_endpoint$"),
        ("fs.s3a.endpoint.region", r"storage\.aws_region$"),
        ("fs.s3a.bucket.one.endpoint", r"storage\.aws_endpoint$"),
        ("fs.s3a.path.style.access", r"storage\.aws_virtual_hosted_style_request with the opposite"),
        ("fs.s3a.fast.upload", r"one of the options storage\.\*"),
        ("fs.s3n.access.key", r"storage\.aws_access_key_id$"),
        ("spark.hadoop.fs.s3a.access.key", r"storage\.aws_access_key_id$"),
        ("hadoop.fs.s3a.access.key", r"storage\.aws_access_key_id$"),
        ("storage.fs.s3a.access.key", r"storage\.aws_access_key_id$"),
        ("fs.gs.auth.service.account.json.keyfile", r"storage\.google_service_account$"),
        ("fs.azure.account.key.mine.blob.core.windows.net", r"storage\.azure_storage_account_key$"),
        ("fs.azure.account.oauth2.client.secret.mine.dfs.core.windows.net", r"storage\.azure_client_secret$"),
        ("fs.azure.sas.container.mine", r"storage\.azure_storage_sas_key$"),
        ("fs.oss.endpoint", r"one of the options storage\.\*"),
    ],
)
def test_options_of_hadoop_are_refused_with_what_to_write(name: str, instead: str) -> None:
    refused = {name: "secret-value"}
    checks = (
        lambda: read(**refused),
        lambda: write(**refused),
        lambda: StateOptions.pick(refused),
        lambda: CatalogOptions.parse({"root": "s3a://bucket/x", **refused}),
        lambda: check_properties(refused),
    )
    for check in checks:
        with pytest.raises(InvalidInputError, match=f"option {re.escape(name)} is one of Hadoop.*{instead}") as caught:
            check()
        assert "secret-value" not in str(caught.value)


def test_storage_options_that_hadoop_names_refer_to_exist() -> None:
    named = {
        name
        for table in (_S3, _GOOGLE, _AZURE)
        for text in table.values()
        for name in re.findall(r"storage\.(\w+)", text)
    }
    assert named <= {*s3_names, *gcs_names, *azure_names}


def test_column_may_be_called_fs() -> None:
    assert write(**{"fs.lance.compression": "zstd"}).column_properties == {"fs": {"lance.compression": "zstd"}}
