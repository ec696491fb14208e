"""Credentials of catalogs as storage options: our stores take each of them."""

from __future__ import annotations

import pytest

from lance_spark.namespace.external.vended_credentials import iceberg_options, merged, unity_options
from lance_spark.storage.azure import adlfs_arguments
from lance_spark.storage.gcs import gcsfs_arguments
from lance_spark.storage.s3.options import s3fs_arguments


def test_s3() -> None:
    config = {
        "s3.access-key-id": "k",
        "s3.secret-access-key": "s",
        "s3.session-token": "t",
        "client.region": "eu-west-1",
        "s3.endpoint": "http://h:1",
        "s3.path-style-access": "true",
        "warehouse": "x",
    }
    for location in ("s3://b/t", "s3a://b/t"):
        assert s3fs_arguments(iceberg_options(location, {"config": config})) == {
            "key": "k",
            "secret": "s",
            "token": "t",
            "client_kwargs": {"region_name": "eu-west-1"},
            "endpoint_url": "http://h:1",
            "config_kwargs": {"s3": {"addressing_style": "path"}},
        }
    assert iceberg_options("/local", {"config": config}) == {}
    assert iceberg_options("gs://b/t", {"config": config}) == {}
    assert iceberg_options("nonsense", {"config": config}) == {}


def test_azure_and_google() -> None:
    location = "abfss://c@acc.dfs.core.windows.net/t"
    config = {
        "adls.sas-token.other.dfs.core.windows.net": "wrong",
        "adls.sas-token.acc.dfs.core.windows.net": "sas",
        "adls.sas-token-expires-at-ms.acc.dfs.core.windows.net": "7",
    }
    found = iceberg_options(location, {"config": config})
    assert found["expires_at_millis"] == "7"
    assert adlfs_arguments(found, "") == {"account_name": "acc", "sas_token": "sas"}
    google = {"gcs.oauth2.token": "bearer", "gcs.oauth2.token-expires-at": "7"}
    found = iceberg_options("gs://b/t", {"config": google})
    assert (found["expires_at_millis"], gcsfs_arguments(found)) == ("7", {"bearer": "bearer"})
    assert adlfs_arguments(unity_options(location, {"azure_user_delegation_sas": {"sas_token": "x"}}), "") == {
        "account_name": "acc",
        "sas_token": "x",
    }
    assert gcsfs_arguments(unity_options("gs://b/t", {"gcp_oauth_token": {"oauth_token": "x"}})) == {"bearer": "x"}


@pytest.mark.parametrize(
    "answer", [{"config": 7}, {"config": {"s3.access-key-id": 7}}, {"storage-credentials": [1, {}]}]
)
def test_what_is_no_credential_is_left_out(answer: dict[str, object]) -> None:
    assert iceberg_options("s3://b/t", answer) == {}
    assert unity_options("s3://b/t", {"aws_temp_credentials": answer, "expiration_time": "x"}) == {}


def test_an_identity_is_not_put_together_from_two_sources() -> None:
    own = {"AWS_SESSION_TOKEN": "old", "key": "old", "region": "r", "endpoint": "http://h", "timeout": "3s"}
    sent = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
    assert merged(own, sent) == {"region": "r", "endpoint": "http://h", "timeout": "3s", **sent}
    assert s3fs_arguments(merged(own, {**sent, "aws_endpoint": "http://i"}))["endpoint_url"] == "http://i"
    assert merged(own, {}) == own == merged(own, None)
    azure = {"azure_storage_account_name": "a", "azure_storage_account_key": "k"}
    assert adlfs_arguments(merged(azure, {"azure_storage_sas_token": "s"}), "") == {
        "account_name": "a",
        "sas_token": "s",
    }
    assert gcsfs_arguments(merged({"google_service_account": "/f"}, {"google_storage_token": "x"})) == {"bearer": "x"}
