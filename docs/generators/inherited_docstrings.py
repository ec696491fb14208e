"""Extension of griffe, which reads the docstrings for the pages of the Python API.

- A method without a docstring has that of the method that it overrides, as `inspect.getdoc` finds it.
- Declarations for type checkers alone, below `if TYPE_CHECKING`, are left out: they would hide what they stand for.
- A `cached_property` is an attribute.
- An entry for several arguments becomes one for each.
- Verbs of `Dataset` that a docstring names are links.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

import griffe

_DATASET = "table.dataset.Dataset"
_SEVERAL = re.compile(r"^( +)(\w+), (\w+(?:, \w+)*): (.*(?:\n\1 +\S.*)*)$", re.MULTILINE)
"""An entry for several arguments: indentation, first name, other names, text."""
_NAME = re.compile(r"(?<!`)`(Dataset\.)?(\w+)`(?!`)")


class InheritedDocstrings(griffe.Extension):
    """Completes a package when it is loaded."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Completes all classes, then all docstrings: a class may inherit from one that is found later."""
        classes = [item for item in _objects(pkg) if isinstance(item, griffe.Class)]
        for item in classes:
            _replace_members(item)
        for item in classes:
            for name, member in item.members.items():
                if not member.is_alias and not member.has_docstring:
                    member.docstring = _inherited(item, name)
        members = pkg[_DATASET].all_members.items() if pkg.name == "lance_spark" else ()
        verbs = {name for name, member in members if member.is_function and not name.startswith("_")}
        for text, names in {id(item.docstring): (item.docstring, _parameters(item)) for item in _objects(pkg)}.values():
            if text is not None:
                text.value = _linked(_SEVERAL.sub(_divided, text.value), verbs - names)


def _objects(item: griffe.Object) -> Iterator[griffe.Object]:
    for member in item.members.values():
        if not member.is_alias:
            yield member
            yield from _objects(member)


def _replace_members(item: griffe.Class) -> None:
    for name, member in list(item.members.items()):
        if not isinstance(member, griffe.Function):
            continue
        if not member.runtime:
            item.del_member(name)
        elif any("cached_property" in str(decorator.value) for decorator in member.decorators):
            item.set_member(name, _attribute(member))


def _attribute(function: griffe.Function) -> griffe.Attribute:
    attribute = griffe.Attribute(
        function.name,
        lineno=function.lineno,
        endlineno=function.endlineno,
        annotation=function.returns,
        docstring=function.docstring,
    )
    attribute.labels.add("property")
    return attribute


def _inherited(item: griffe.Class, name: str) -> griffe.Docstring | None:
    for base in item.mro():
        member = base.members.get(name)
        if member is not None and member.has_docstring:
            return member.docstring
    return None


def _parameters(item: griffe.Object) -> set[str]:
    """The names of the parameters of a function, or of the attributes of a class, which are not those of verbs."""
    if isinstance(item, griffe.Function):
        return {parameter.name for parameter in item.parameters}
    return {*item.members, *(item.parent.members if item.parent is not None and item.parent.is_class else ())}


def _divided(entry: re.Match[str]) -> str:
    """An entry for each name; all but the first refer to that."""
    indent, first, others, text = entry.groups()
    lines = [f"{indent}{first}: {text}", *(f"{indent}{other}: see `{first}`." for other in others.split(", "))]
    return "\n".join(lines)


def _linked(text: str, verbs: Collection[str]) -> str:
    def link(name: re.Match[str]) -> str:
        return f"[{name[0]}][lance_spark.Dataset.{name[2]}]" if name[2] in verbs else name[0]

    return _NAME.sub(link, text)
