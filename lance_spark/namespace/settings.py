"""The settings of catalogs that somebody else keeps, by the names that the field's own implementations have."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

from lance_spark.errors import InvalidInputError
from lance_spark.storage.options import boolean

HEADER_PREFIXES = ("header.", "headers.")


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    """The settings of one catalog, by the names that its class gives them.

    Attributes:
        impl: the kind of catalog, for messages.
        values: by name.
        headers: sent with each request.
    """

    impl: str
    values: Mapping[str, str] = field(repr=False)  # Some are secrets.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def text(self, name: str) -> str | None:
        """A setting; None if it is not given."""
        return self.values.get(name)

    def required(self, name: str, meaning: str) -> str:
        """A setting that has to be given; `meaning` says what it is."""
        if name not in self.values:
            raise InvalidInputError(f"a catalog with impl = {self.impl} needs the setting {name}, {meaning}")
        return self.values[name]

    def whole_number(self, name: str, default: int) -> int:
        """A setting that is a whole number from 1 on."""
        text = self.values.get(name, str(default))
        if not (text.isascii() and text.isdigit() and 1 <= int(text) < 2**31):
            raise InvalidInputError(f"{name} is {text!r}; it is a whole number from 1 on")
        return int(text)


def boolean_setting(name: str, text: str) -> bool:
    """A setting that is true or false.

    Raises:
        InvalidInputError: it is neither.
    """
    try:
        return boolean(text)
    except ValueError:
        raise InvalidInputError(f"setting {name} of the catalog is {text!r}; it is true or false") from None


def is_header(name: str) -> bool:
    """Whether a setting is a header of requests."""
    return name.lower().startswith(HEADER_PREFIXES)


def read_settings(
    impl: str, given: Mapping[str, str], known: Mapping[str, str], *, has_headers: bool = False
) -> CatalogSettings:
    """The settings of a catalog.

    Args:
        given: names, in any case, and values.
        known: for each name in lower case the one that it stands for, such as ``{"polaris.endpoint": "endpoint"}``.
        has_headers: whether ``header.*`` and ``headers.*`` are settings too.

    Raises:
        InvalidInputError: an unknown name, an empty value, or two names of one setting with different values.
    """
    values: dict[str, str] = {}
    headers: dict[str, str] = {}
    for name, value in given.items():
        text, folded = value.strip(), name.lower()
        prefix = next((prefix for prefix in HEADER_PREFIXES if has_headers and folded.startswith(prefix)), None)
        if prefix is None and folded not in known:
            near = difflib.get_close_matches(folded, known, n=1, cutoff=0.5)
            spelled = ", ".join(sorted({*known, *(f"{item}*" for item in HEADER_PREFIXES if has_headers)}))
            hint = f"did you mean {near[0]}?" if near else f"known are {spelled}"
            raise InvalidInputError(f"a catalog with impl = {impl} has no setting {name}; {hint}")
        if not text:
            raise InvalidInputError(f"setting {name} of the catalog is empty")
        if prefix is not None:
            headers[name[len(prefix) :]] = text
        elif values.setdefault(known[folded], text) != text:
            raise InvalidInputError(f"setting {name} of the catalog has another value under another name; keep one")
    return CatalogSettings(impl, values, headers)
