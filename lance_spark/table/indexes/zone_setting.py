"""The setting that names the columns with zone maps, apart from what builds them: most tables have none.

>>> column_names("id, `a.b`.c")
['id', '`a.b`.c']
"""

from __future__ import annotations

from lance_spark.errors import InvalidInputError
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.paths import is_detached

AUTO_ZONEMAP = "lance.auto_zonemap"
ALL_COLUMNS = "*"


def zone_setting(made: Manifest, wanted: str | None = None) -> str | None:
    """The text that names the columns whose zone maps follow a version; None if there are none to build.

    Args:
        wanted: the columns; None is what the config says.
    """
    text = made.config.get(AUTO_ZONEMAP, "") if wanted is None else wanted
    return text if text.strip() and not is_detached(made.version) else None


def column_names(text: str) -> list[str]:
    """The paths of a list with commas.

    Raises:
        InvalidInputError: one is empty.
    """
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise InvalidInputError(f"{AUTO_ZONEMAP} is {text!r}; write columns with commas between them, or {ALL_COLUMNS}")
    return names
