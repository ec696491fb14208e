"""Collects the blob inputs of a write for its tasks."""

from __future__ import annotations

from collections.abc import Sequence

from lance_spark.spark.blobs.references import BlobInputs, decoded_secret
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.registry import Session
from lance_spark.storage import open_store
from lance_spark.storage.paths import absolute_uri
from lance_spark.table.bases import options_of


def blob_inputs(session: Session, sources: Sequence[TableHandle]) -> BlobInputs:
    """The secrets of the session, and the storage options of the tables `sources` that have some."""
    options = {
        absolute_uri(open_store(handle.uri, options_of(handle.storage_options)).uri): dict(handle.storage_options)
        for handle in sources
        if handle.storage_options
    }
    return BlobInputs(decoded_secret(session.blob_mark), decoded_secret(session.blob_key), options)
