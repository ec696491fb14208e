"""Names of settings and options whose values Spark hides in its UI, event logs and plans.

Spark's own names cover `secret`, `token` and `password`, and miss keys of accounts, connection strings and headers. A
setting replaces them, so what is added here goes beside what Spark or the site has.
"""

from __future__ import annotations

from collections.abc import Mapping

OF_SETTINGS = "spark.redaction.regex"
"""Pattern of settings in the UI and in event logs, and of options. Spark reads it when the first session starts."""

OF_OPTIONS = "spark.sql.redaction.options.regex"
"""Pattern of options in plans, and of settings in the results of SET; each session has its own."""

_OF_SPARK = {OF_SETTINGS: "(?i)secret|password|token|access[.]?key|credential", OF_OPTIONS: "(?i)url"}

# Spark hides values that match too, so these are no shorter than need be. No backslash, an escape in files of settings.
_SECRETS = (
    "(?i:(?:access|account|master|sas|service_account)_key|connection_string|(?:client|config|s3_additional)_kwargs|"
    "proxy_url|storage[.](?:base_[0-9]+[.])?key|catalog[.][^.]+[.]headers?[.])"
)


def redactions(given: Mapping[str, str]) -> dict[str, str]:
    """The two settings for a session whose builder and files have the settings `given`."""
    return {name: with_secrets(given.get(name, of_spark)) for name, of_spark in _OF_SPARK.items()}


def with_secrets(pattern: str) -> str:
    """A regular expression for what `pattern` matches and for the secrets of stores and catalogs.

    >>> with_secrets("(?i)url").startswith("(?:(?i)url)|(?i:"), with_secrets(with_secrets("x")) == with_secrets("x")
    (True, True)
    """
    return pattern if _SECRETS in pattern else f"(?:{pattern})|{_SECRETS}"
