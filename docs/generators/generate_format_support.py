"""Writes the tables of `docs/reference/format-support.md` from the registered encodings, layouts and file versions.

`python docs/generators/generate_format_support.py` writes; with `--check` it fails if the page is out of date.
"""

from __future__ import annotations

import re
from pathlib import Path

from generated_page import main

from lance_spark.encodings.base import BlockEncoding, CompressiveEncoding, MiniBlockEncoding, PerValueEncoding
from lance_spark.encodings.registry import known_codecs
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.file.writable import WRITABLE_VERSIONS
from lance_spark.file_version import FileVersion
from lance_spark.layouts.field_readers import field_reader
from lance_spark.layouts.registry import known_layouts
from lance_spark.layouts.v2_0.registry import known_array_encodings

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "format-support.md"

_ROLES: tuple[tuple[str, type[CompressiveEncoding], str], ...] = (
    ("mini-block values", MiniBlockEncoding, "encode_mini_blocks"),
    ("levels, dictionaries", BlockEncoding, "encode_block"),
    ("full-zip values", PerValueEncoding, "encode_values"),
)
_ONLY_2_2 = {
    ("variable_packed_struct", "full-zip values"),
    ("general", "levels, dictionaries"),
    ("rle", "levels, dictionaries"),
}
"""What version 2.1 has no place for (`encodings/choose.py`)."""


def versions() -> str:
    """Which file versions are read and written."""
    lines = ["| file version | read | written |", "|---|---|---|"]
    for version in FileVersion:
        cells = (version.value, _yes(_is_read(version)), _yes(version in WRITABLE_VERSIONS))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _is_read(version: FileVersion) -> bool:
    if version is FileVersion.V0_1:
        return True  # It has a reader of its own, `file/v0_1_reader.py`.
    try:
        field_reader(version)
    except UnsupportedFeatureError:
        return False
    return True


def compressive_encodings() -> str:
    """The encodings of 2.1 and 2.2 by role."""
    chooser = (ROOT / "lance_spark" / "encodings" / "choose.py").read_text()
    lines = ["| encoding | role | versions | read | written | tests |", "|---|---|---|---|---|---|"]
    for name, codec in sorted(known_codecs().items()):
        for role, base, method in _ROLES:
            if not issubclass(codec, base):
                continue
            written = re.search(rf"\b{codec.__name__}\.{method}s?\(", chooser) is not None
            known = "2.2" if (name, role) in _ONLY_2_2 else "2.1, 2.2"
            cells = (f"`{name}`", role, known, "yes", _yes(written), _tests(name, "tests/encodings"))
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def page_layouts() -> str:
    """The page layouts of 2.1 and 2.2."""
    lines = ["| layout | versions | read | written | tests |", "|---|---|---|---|---|"]
    for name in sorted(known_layouts()):
        # Only in 2.1: blob columns of 2.2 have descriptions in pages like those of other columns.
        test = "tests/table/blobs/test_blob_v1.py" if name == "blob_layout" else "tests/file/test_forced_layouts.py"
        lines.append(f"| `{name}` | 2.1, 2.2 | yes | yes | `{test}` |")
    return "\n".join(lines)


def array_encodings() -> str:
    """The encodings of 2.0."""
    writer = (ROOT / "lance_spark" / "layouts" / "v2_0" / "write.py").read_text()
    written = set(re.findall(r"pb\.ArrayEncoding\((\w+)=", writer))
    lines = ["| encoding | read | written | tests |", "|---|---|---|---|"]
    for name in sorted(known_array_encodings()):
        test = "`tests/file/test_v2_0_writer.py`" if name in written else "`tests/layouts/v2_0`"
        lines.append(f"| `{name}` | yes | {_yes(name in written)} | {test} |")
    return "\n".join(lines)


def _tests(name: str, folder: str) -> str:
    path = f"{folder}/test_{name}.py"
    return f"`{path}`" if (ROOT / path).exists() else "`tests/file/test_forced_encodings.py`"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def generated() -> str:
    """The generated part."""
    parts = (
        ("File versions", versions()),
        ("Encodings of 2.1 and 2.2", compressive_encodings()),
        ("Page layouts of 2.1 and 2.2", page_layouts()),
        ("Encodings of 2.0", array_encodings()),
    )
    return "\n\n".join(f"## {title}\n\n{table}" for title, table in parts)


if __name__ == "__main__":
    raise SystemExit(main(PAGE, Path(__file__).name, generated()))
