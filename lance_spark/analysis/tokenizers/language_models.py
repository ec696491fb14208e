"""Location of tokenizer dictionaries, the same as in the reference library."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from lance_spark.errors import UnsupportedFeatureError

VARIABLE = "LANCE_LANGUAGE_MODEL_HOME"
"""The environment variable with the folder of all dictionaries."""


def model_folder(name: str) -> Path:
    """The folder of the dictionary of a tokenizer such as ``jieba/default``.

    Raises:
        UnsupportedFeatureError: there is no such folder.
    """
    home = os.environ.get(VARIABLE)
    folder = (Path(home) if home is not None else _user_data() / "lance" / "language_models") / name
    if not folder.is_dir():
        raise UnsupportedFeatureError(
            f"the tokenizer {name!r} needs its dictionary in {folder}; {VARIABLE} sets the folder of all dictionaries",
            feature=f"tokenizer {name}",
        )
    return folder


def _user_data() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    data = os.environ.get("XDG_DATA_HOME", "")
    return Path(data) if os.path.isabs(data) else Path.home() / ".local" / "share"
