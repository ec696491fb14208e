"""Renewal of the credentials that a catalog sends for a table."""

from __future__ import annotations

import json
from collections.abc import Mapping

from lance_spark.errors import InvalidInputError
from lance_spark.namespace.opening import CatalogPlace
from lance_spark.storage.renewal import RENEWAL


def renewed(text: str) -> Mapping[str, str]:
    """The storage options of a table as its catalog sends them now.

    Raises:
        InvalidInputError: the option was not made by `CatalogPlace.renewable`.
        LanceError: the catalog does not respond, or the table was dropped.
    """
    try:
        told = json.loads(text)
        # The identifier is that of the whole catalog.
        fields = {**told["place"], "parent": tuple(told["place"]["parent"]), "single_level": False}
        place, identifier = CatalogPlace(**fields), tuple(told["identifier"])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"storage option {RENEWAL} is set by catalogs only") from error
    return place.open().table_location(identifier).storage_options
