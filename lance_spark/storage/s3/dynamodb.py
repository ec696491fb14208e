"""Manifests in a DynamoDB table (Lance format specification, "External Manifest Store"; `s3+ddb://`).

Same layout as the reference library: partition key ``base_uri`` (text: the key prefix of the root, without the bucket),
sort key ``version`` (number), and the attributes ``path`` (the manifest's full key), ``committer`` and ``size``.

Clients send a request that creates an entry only once, for the reason in `client`: a silent retry would be
refused because of our own entry. This module retries itself and remembers that it did.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any, TypeVar

from lance_spark.errors import CorruptFileError, InvalidInputError, LanceError, StorageError
from lance_spark.storage.base import PutResult
from lance_spark.storage.manifest_table import ManifestEntry
from lance_spark.storage.per_process import PerProcess
from lance_spark.storage.s3.client import plain_client
from lance_spark.storage.s3.options import s3fs_arguments

_COMMITTER = "lancedb"
_ATTEMPTS = 6
_FIRST_PAUSE_SECONDS = 0.05
_CONDITION_FAILED = "ConditionalCheckFailedException"
_TRY_AGAIN = frozenset(
    {
        "InternalServerError",
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ServiceUnavailable",
        "ThrottlingException",
        "TransactionConflictException",
    }
)

Reply = TypeVar("Reply")


class DynamoManifestTable:
    """The `ManifestTable` of one root.

    Args:
        table: name of the DynamoDB table.
        root: ``bucket/key`` of the root.
        options: storage options of S3; ``dynamodb_endpoint`` overrides the default endpoint of DynamoDB.

    Raises:
        InvalidInputError: the root is a bucket without a key prefix, or an option is invalid.
    """

    def __init__(self, table: str, root: str, options: Mapping[str, str]) -> None:
        self._base_uri = root.partition("/")[2]
        if not self._base_uri:
            raise InvalidInputError(f"a table that commits through DynamoDB cannot be the whole bucket {root!r}")
        self._table = table
        self._root = root
        self._options = dict(options)
        arguments = s3fs_arguments(options)
        endpoint = next((text for name, text in options.items() if name.lower() == "dynamodb_endpoint"), None)
        self._client = _shared(json.dumps(arguments, sort_keys=True), endpoint)
        self._key = f"{self._base_uri}/"

    def __reduce__(self) -> tuple[Any, ...]:
        return DynamoManifestTable, (self._table, self._root, self._options)

    def __repr__(self) -> str:
        return f"DynamoManifestTable({self._table!r}, {self._root!r})"

    @property
    def description(self) -> str:
        return f"the DynamoDB table {self._table!r}, base_uri {self._base_uri!r}"

    def latest(self) -> ManifestEntry | None:
        reply = self._read("query", **self._all(), ScanIndexForward=False, Limit=1)
        items = reply.get("Items") or [None]
        return self._entry(items[0])

    def get(self, version: int) -> ManifestEntry | None:
        return self._entry(self._read("get_item", Key=self._place(version)).get("Item"))

    def create(self, entry: ManifestEntry) -> PutResult:
        self._require_keys()
        condition = "attribute_not_exists(base_uri) AND attribute_not_exists(version)"
        in_doubt = False
        for attempt in range(_ATTEMPTS):
            _pause(attempt)
            try:
                self._put(entry, condition)
            except self._errors() as error:
                if _code(error) == _CONDITION_FAILED:
                    return PutResult.EXISTS
                if _is_before_sending(error) or not _may_pass(error):
                    if in_doubt:
                        return PutResult.UNKNOWN
                    raise self._failed(error) from error
                in_doubt = True
                continue
            return PutResult.CREATED
        return PutResult.UNKNOWN

    def replace(self, entry: ManifestEntry) -> bool:
        condition = "attribute_exists(base_uri) AND attribute_exists(version)"
        try:
            self._again(lambda: self._put(entry, condition))
        except self._errors() as error:
            if _code(error) == _CONDITION_FAILED:
                return False
            raise self._failed(error) from error
        return True

    def clear(self) -> None:
        for version in list(self._versions()):
            try:
                self._again(partial(self._call, "delete_item", Key=self._place(version)))
            except self._errors() as error:
                raise self._failed(error) from error

    def _versions(self) -> Iterator[int]:
        start: dict[str, Any] = {}
        while True:
            page = self._read("query", **self._all(), ScanIndexForward=False, **start)
            for item in page.get("Items", ()):
                yield self._number(item, "version")
            if not page.get("LastEvaluatedKey"):
                return
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def _all(self) -> dict[str, Any]:
        return {
            "KeyConditionExpression": "base_uri = :base_uri",
            "ExpressionAttributeValues": {":base_uri": {"S": self._base_uri}},
        }

    def _place(self, version: int) -> dict[str, Any]:
        return {"base_uri": {"S": self._base_uri}, "version": {"N": str(version)}}

    def _put(self, entry: ManifestEntry, condition: str) -> None:
        item = self._place(entry.version) | {"path": {"S": self._key + entry.path}, "committer": {"S": _COMMITTER}}
        if entry.size is not None:
            item["size"] = {"N": str(entry.size)}
        self._call("put_item", Item=item, ConditionExpression=condition)

    def _entry(self, item: Mapping[str, Any] | None) -> ManifestEntry | None:
        if item is None:
            return None
        path = item.get("path", {}).get("S")
        if not isinstance(path, str) or not path.startswith(self._key):
            raise CorruptFileError(f"an entry of {self.description} names the manifest {path!r}, which is not below it")
        size = self._number(item, "size") if "size" in item else None
        return ManifestEntry(self._number(item, "version"), path.removeprefix(self._key), size)

    def _number(self, item: Mapping[str, Any], name: str) -> int:
        text = item.get(name, {}).get("N", "")
        if not isinstance(text, str) or not (text.isascii() and text.isdigit()) or int(text) >= 1 << 64:
            raise CorruptFileError(f"an entry of {self.description} has the {name} {text!r}")
        return int(text)

    def _require_keys(self) -> None:
        """Checks once per process that the table has the key schema on which conditional creation depends."""
        if (self._client, self._table) in _trusted:
            return
        attributes = self._read("describe_table").get("Table", {}).get("KeySchema", ())
        keys = {key["AttributeName"]: key["KeyType"] for key in attributes}
        if keys != {"base_uri": "HASH", "version": "RANGE"}:
            raise StorageError(
                f"the DynamoDB table {self._table!r} has the keys {keys}; manifests need a partition key base_uri "
                "(text) and a sort key version (number)"
            )
        _trusted.add((self._client, self._table))

    def _read(self, method: str, **parameters: Any) -> dict[str, Any]:
        if method != "describe_table":
            parameters["ConsistentRead"] = True
        try:
            reply: dict[str, Any] = self._again(lambda: self._call(method, **parameters))
        except self._errors() as error:
            raise self._failed(error) from error
        return reply

    def _call(self, method: str, **parameters: Any) -> Any:
        return getattr(self._client.get(), method)(TableName=self._table, **parameters)

    def _again(self, do: Callable[[], Reply]) -> Reply:
        """Runs `do`, which must be idempotent, with retries while the service fails."""
        for attempt in range(_ATTEMPTS - 1):
            _pause(attempt)
            try:
                return do()
            except self._errors() as error:
                if _is_before_sending(error) or not _may_pass(error):
                    raise
        _pause(_ATTEMPTS - 1)
        return do()

    def _errors(self) -> tuple[type[BaseException], ...]:
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        return (BotoCoreError, ClientError, ResponseParserError)

    def _failed(self, error: BaseException) -> LanceError:
        return StorageError(f"{self.description}: {type(error).__name__}: {error}")


_trusted: set[tuple[PerProcess[Any], str]] = set()


@lru_cache(maxsize=64)
def _shared(arguments: str, endpoint: str | None) -> PerProcess[Any]:
    def make() -> Any:
        # The reference library's variable; botocore itself reads AWS_ENDPOINT_URL_DYNAMODB.
        return plain_client("dynamodb", json.loads(arguments), endpoint or os.environ.get("DYNAMODB_ENDPOINT"))

    return PerProcess(make)


def _pause(attempt: int) -> None:
    if attempt:
        time.sleep(_FIRST_PAUSE_SECONDS * 2**attempt * random.uniform(0.5, 1.0))


def _code(error: BaseException) -> str:
    from botocore.exceptions import ClientError

    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""


def _is_before_sending(error: BaseException) -> bool:
    from botocore import exceptions

    transport = (exceptions.ConnectionError, exceptions.HTTPClientError, exceptions.IncompleteReadError)
    return isinstance(error, exceptions.BotoCoreError) and not isinstance(error, transport)


def _may_pass(error: BaseException) -> bool:
    """Whether a request may succeed on a retry; also: whether it may have taken effect despite the error."""
    from botocore.exceptions import ClientError

    if not isinstance(error, ClientError):
        return True
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    return status >= 500 or status in (0, 408, 429) or _code(error) in _TRY_AGAIN
