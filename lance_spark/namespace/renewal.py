"""Renewal of the credentials that a catalog sends for a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict

from lance_spark.errors import InvalidInputError
from lance_spark.namespace.object_id import Identifier
from lance_spark.namespace.opening import CatalogPlace
from lance_spark.storage.renewal import EXPIRES, RENEWAL


def renewable(place: CatalogPlace, identifier: Identifier, options: Mapping[str, str]) -> dict[str, str]:
    """Storage options that a catalog has sent for a table, with what renews them if they end."""
    if EXPIRES not in options:
        return dict(options)
    return {**options, RENEWAL: json.dumps({"place": asdict(place), "identifier": identifier})}


def renewed(text: str) -> Mapping[str, str]:
    """The storage options of a table as its catalog sends them now.

    Raises:
        InvalidInputError: the option was not made by `renewable`.
        LanceError: the catalog does not respond, or the table was dropped.
    """
    try:
        told = json.loads(text)
        fields = {**told["place"], "parent": tuple(told["place"]["parent"])}
        place, identifier = CatalogPlace(**fields), tuple(told["identifier"])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"storage option {RENEWAL} is set by catalogs only") from error
    return place.open().table_location(identifier).storage_options
