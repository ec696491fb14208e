"""Settings that Spark takes from elsewhere than the builder: its files and the arguments of spark-submit.

A setting of the builder replaces such a setting, so what adds to a list has to know it. Before the JVM starts they are
read as Spark's launcher reads them; a running JVM is asked.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from lance_spark.errors import InvalidInputError

CLASS_PATH = "spark.driver.extraClassPath"
ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
"""The environment variable with the arguments that pyspark gives to spark-submit."""

_FLAGS = {"--driver-class-path": CLASS_PATH}
_CONF = ("--conf", "-c")
_FILE = "--properties-file"
_DEFAULTS_TOO = "--load-spark-defaults"
_WITHOUT_VALUE = frozenset({_DEFAULTS_TOO, "--verbose", "-v", "--supervise", "--version", "--help", "-h"})
_ENTRY = re.compile(r"((?:\\.|[^\\=:\s])+)(?:\s*[=:]\s*|\s+|\Z)(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def running_jvm() -> Any:
    """The JVM that sessions of this process use, if it runs already: that of an earlier session or of spark-submit."""
    context = getattr(import_module("pyspark"), "SparkContext", None)
    if context is None:
        return None  # A client of Spark Connect alone.
    if context._jvm is None and "PYSPARK_GATEWAY_PORT" in os.environ:
        context._ensure_initialized()
    return context._jvm


def submitted_settings(jvm: Any) -> dict[str, str]:
    """The settings of a new session without any of its builder.

    Args:
        jvm: the result of `running_jvm`.

    Raises:
        InvalidInputError: a file of settings, or the arguments, cannot be read.
    """
    if jvm is not None:
        return dict(import_module("pyspark").SparkConf(_jvm=jvm).getAll())
    arguments = _arguments()
    named = [Path(argument.value) for argument in arguments if argument.option == _FILE]
    with_defaults = not named or any(argument.option == _DEFAULTS_TOO for argument in arguments)
    settings: dict[str, str] = {}
    for path in [_defaults_file() if with_defaults else None, *named[-1:]]:
        settings.update({} if path is None else _properties(path))
    return {**settings, **dict(argument.setting() for argument in arguments)}


def add_to_arguments(name: str, item: str, separator: str) -> None:
    """Adds an item to a list that the arguments of spark-submit set: they count more than the builder."""
    named = [argument for argument in _arguments() if argument.setting()[0] == name]
    if not named:
        return
    words = shlex.split(os.environ[ARGUMENTS])
    for argument in named:
        items = argument.setting()[1]
        words[argument.place] = words[argument.place].removesuffix(items) + with_item(items, item, separator)
    os.environ[ARGUMENTS] = shlex.join(words)


def with_item(text: str, item: str, separator: str) -> str:
    """A list with an item behind the others, unless it is one of them.

    >>> with_item("a,b", "c", ","), with_item("a, b,", "b", ",")
    ('a,b,c', 'a, b,')
    """
    items = [part.strip() for part in text.split(separator)]
    return text if item in items else separator.join([*filter(None, items), item])


@dataclass(frozen=True, slots=True)
class _Argument:
    """An option of spark-submit, its value, and the place of the word that has the value."""

    option: str
    value: str
    place: int

    def setting(self) -> tuple[str, str]:
        """The name and value of the setting; the name is empty if the option is not a setting."""
        if self.option in _CONF:
            name, _, value = self.value.partition("=")
            return name.strip(), value
        return _FLAGS.get(self.option, ""), self.value


def _arguments() -> list[_Argument]:
    """The options in `ARGUMENTS`, up to the program that spark-submit is to run."""
    text = os.environ.get(ARGUMENTS, "")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InvalidInputError(f"{ARGUMENTS} is {text!r}: {error}") from error
    arguments: list[_Argument] = []
    place = 0
    while place < len(words) and words[place].startswith("-"):
        option, has_value, value = words[place].partition("=")
        if not has_value and option not in _WITHOUT_VALUE:
            place += 1
            value = words[place] if place < len(words) else ""
        arguments.append(_Argument(option, value, place))
        place += 1
    return arguments


def _defaults_file() -> Path | None:
    """The file with the settings of all sessions of the Spark that pyspark starts; None if there is none."""
    home = os.environ.get("SPARK_HOME") or Path(import_module("pyspark").__file__ or "").parent
    path = Path(os.environ.get("SPARK_CONF_DIR") or Path(home, "conf")) / "spark-defaults.conf"
    return path if path.is_file() else None


def _properties(path: Path) -> dict[str, str]:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"the settings in {path} cannot be read: {error}") from error
    return dict(_entries(text))


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """The entries of a file of Java properties."""
    logical = ""
    for line in text.splitlines():
        logical += line.lstrip()
        if not logical or logical[0] in "#!":
            logical = ""
        elif (len(logical) - len(logical.rstrip("\\"))) % 2:
            logical = logical[:-1]  # The entry goes on in the next line.
        else:
            yield from _entry(logical)
            logical = ""
    yield from _entry(logical)


def _entry(line: str) -> Iterator[tuple[str, str]]:
    match = _ENTRY.match(line)
    if match is not None:
        yield _unescaped(match[1]), _unescaped(match[2]).strip()


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: _character(match[1]), text)


def _character(escape: str) -> str:
    return chr(int(escape[1:], 16)) if len(escape) > 1 else _ESCAPED.get(escape, escape)
