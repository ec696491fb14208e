"""The kinds of vector index, as metadata names them."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from lance_spark._proto import index_details_pb2
from lance_spark.index.base import IndexKind


class VectorIndexKind(IndexKind):
    """Vector indexes of all kinds: they have one type of details."""

    type_name = "VECTOR"
    type_url = "/lance.index.pb.VectorIndexDetails"
    max_version = 2

    @classmethod
    def holds_row_ids(cls, version: int) -> bool:
        return True


def vector_index_kind(name: str) -> type[VectorIndexKind]:
    """The kind with a name such as ``IVF_PQ``."""
    return type(name, (VectorIndexKind,), {"type_name": name})


def kind_in_details(details: bytes) -> str | None:
    """The name of the kind that the details of a segment describe; None if they do not."""
    try:
        message = index_details_pb2.VectorIndexDetails.FromString(details)
    except DecodeError:
        return None
    codes = [name for name in ("flat", "pq", "sq", "rq") if message.HasField(name)]
    if len(codes) != 1:
        return None
    return f"IVF_{'HNSW_' if message.HasField('hnsw_index_config') else ''}{codes[0].upper()}"
