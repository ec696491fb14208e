"""moto's server with atomic conditional PUTs to S3 and DynamoDB. Takes the arguments of ``moto_server``.

moto looks whether an object is there and then stores the new one, on a thread for each request, so under load
two writers can both be told that they created it. Real stores do this in one step, and so must a store that tests
of races rely on.
"""

from __future__ import annotations

import threading
from typing import Any

from moto.dynamodb.responses import DynamoHandler
from moto.s3.responses import S3Response
from moto.server import main

_one_at_a_time = threading.Lock()
_put_object = S3Response.put_object
_put_item = DynamoHandler.put_item


def put_object(self: S3Response) -> Any:
    with _one_at_a_time:
        return _put_object(self)


def put_item(self: DynamoHandler) -> Any:
    with _one_at_a_time:
        return _put_item(self)


if __name__ == "__main__":
    S3Response.put_object = put_object
    DynamoHandler.put_item = put_item
    main()
