from __future__ import annotations

import pytest

from lance_spark.errors import InvalidInputError
from lance_spark.storage.options import boolean, seconds
from lance_spark.storage.s3.options import s3fs_arguments, with_environment


def test_names_of_the_lance_libraries_and_of_s3fs_mean_the_same() -> None:
    expected = {
        "key": "k",
        "secret": "s",
        "token": "t",
        "endpoint_url": "http://h:1",
        "client_kwargs": {"region_name": "eu-west-1"},
    }
    for prefix in ["", "aws_", "AWS_"]:
        options = {
            f"{prefix}access_key_id": "k",
            f"{prefix}secret_access_key": "s",
            f"{prefix}session_token": "t",
            f"{prefix}endpoint": "http://h:1",
            f"{prefix}region": "eu-west-1",
            "allow_http": "true",
        }
        assert s3fs_arguments(options) == expected
    native = {"key": "k", "secret": "s", "token": "t", "endpoint_url": "http://h:1"}
    assert s3fs_arguments(native | {"client_kwargs": '{"region_name": "eu-west-1"}'}) == expected
    assert s3fs_arguments({"aws_endpoint_url": "https://h"}) == {"endpoint_url": "https://h"}


def test_flags_and_times() -> None:
    arguments = s3fs_arguments(
        {
            "aws_skip_signature": "TRUE",
            "aws_virtual_hosted_style_request": "true",
            "aws_request_payer": "1",
            "aws_server_side_encryption": "aws:kms",
            "aws_sse_kms_key_id": "id",
            "timeout": "500ms",
            "connect_timeout": "2 seconds",
            "allow_invalid_certificates": "true",
            "proxy_url": "http://proxy:3128",
            "config_kwargs": '{"max_pool_connections": 50, "s3": {"use_accelerate_endpoint": true}}',
        }
    )
    assert arguments == {
        "anon": True,
        "requester_pays": True,
        "s3_additional_kwargs": {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "id"},
        "client_kwargs": {"verify": False},
        "config_kwargs": {
            "s3": {"addressing_style": "virtual", "use_accelerate_endpoint": True},
            "read_timeout": 0.5,
            "connect_timeout": 2.0,
            "proxies": {"http": "http://proxy:3128", "https": "http://proxy:3128"},
            "max_pool_connections": 50,
        },
    }


def test_options_that_mean_nothing_here_are_accepted() -> None:
    assert s3fs_arguments({"aws_conditional_put": "etag", "pool_idle_timeout": "3s", "download_retry_count": "3"}) == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aws_regoin": "x"}, "did you mean 'aws_region'"),
        ({"completely_else": "x"}, "unknown storage option 'completely_else' for S3$"),
        ({"aws_region": "a", "region": "b"}, "contradict"),
        ({"allow_http": "perhaps"}, "neither true nor false"),
        ({"timeout": "soon"}, "duration"),
        ({"client_kwargs": "[1]"}, "JSON object"),
        ({"client_kwargs": "{"}, "not JSON"),
        ({"aws_endpoint": "localhost:9000"}, "http"),
        ({"aws_endpoint": "http://h", "allow_http": "false"}, "allow_http is false"),
        ({"aws_region": "a", "client_kwargs": '{"region_name": "b"}'}, "contradict"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        s3fs_arguments(options)


def test_two_names_with_one_value_agree() -> None:
    assert s3fs_arguments({"aws_region": "a", "region": "a"}) == {"client_kwargs": {"region_name": "a"}}


def test_the_environment_completes_what_botocore_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ["AWS_REGION", "AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"]:
        monkeypatch.delenv(name, raising=False)
    assert with_environment({}) == {}
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ENDPOINT", "http://h")
    assert with_environment({}) == {"client_kwargs": {"region_name": "eu-west-1"}, "endpoint_url": "http://h"}
    given = {"client_kwargs": {"region_name": "a"}, "endpoint_url": "http://g"}
    assert with_environment(given) == given
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://i")
    assert "endpoint_url" not in with_environment({})


def test_readers_of_values() -> None:
    assert [boolean(text) for text in ["true", "1", "Yes", "false", "0", "off"]] == [True] * 3 + [False] * 3
    assert [seconds(text) for text in ["30", "30s", "500 ms", "2 minutes", "1.5s"]] == [30, 30, 0.5, 120, 1.5]
