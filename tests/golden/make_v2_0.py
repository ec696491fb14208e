"""Writes ``v2_0/<release>.lance``: one data file of version 2.0 by an old release of the reference library.

Run it with the release installed, in an environment of its own::

    python -m venv old && old/bin/pip install pylance==0.16.1 pyarrow==17.0.0 'numpy<2'
    old/bin/python tests/golden/make_v2_0.py

0.13.0 needs pyarrow<15.0.1.

Releases up to 0.23 wrote the members of a sliced struct unsliced; ``v2_0/<release>-sliced.lance`` is such a file.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from typing import Any

import pyarrow as pa

ROWS = 150
FOLDER = Path(__file__).parent / "v2_0"


def table() -> pa.Table:
    """What the files hold; the metadata asks the releases for their encodings."""
    numbers = list(range(ROWS))
    sparse = [None if i % 7 == 0 else i for i in numbers]
    text = [None if i % 11 == 0 else f"a line of text that repeats itself, line {i}" for i in numbers]
    columns = {
        "int": (pa.array(numbers, pa.int32()), {}),
        "nullable": (pa.array(sparse, pa.int64()), {}),
        "bool": (pa.array([i and i % 2 == 0 for i in sparse], pa.bool_()), {}),
        "double": (pa.array([i and i / 3 for i in sparse], pa.float64()), {}),
        "time": (pa.array(sparse, pa.timestamp("us", "UTC")), {}),
        "bytes": (pa.array([None if i is None else bytes([i]) * (i % 9) for i in sparse], pa.binary()), {}),
        "unique": (pa.array([f"value {i}" for i in numbers], pa.string()), {}),
        "words": (pa.array([None if i is None else f"word {i % 4}" for i in sparse], pa.string()), {}),
        "list": (pa.array([None if i is None else list(range(i % 4)) for i in sparse], pa.list_(pa.int32())), {}),
        "lists": (pa.array([[None if j == 1 else ["x"] * j for j in range(i % 4)] for i in numbers]), {}),
        "struct": (pa.array([{"a": i, "b": str(i)} for i in numbers]), {}),
        "vector": (pa.array([[float(i), -1.0] for i in numbers], pa.list_(pa.float32(), 2)), {}),
        "zstd_text": (pa.array(text, pa.string()), _compression("zstd")),
        "zstd_ints": (pa.array(numbers, pa.int64()), _compression("zstd")),
        "lz4_text": (pa.array(text, pa.string()), _compression("lz4")),
        "fsst_text": (pa.array(text, pa.string()), _compression("fsst")),
        "packed": (
            pa.array([{"a": i, "b": i / 2} for i in numbers], pa.struct([("a", pa.int16()), ("b", pa.float64())])),
            {"packed": "true", "lance-encoding:packed": "true"},
        ),
        "blob": (
            pa.array([None if i % 3 == 0 else b"blob" * (i % 3 - 1) for i in numbers], pa.large_binary()),
            {"lance-encoding:blob": "true"},
        ),
    }
    fields = [pa.field(name, values.type, metadata=metadata) for name, (values, metadata) in columns.items()]
    return pa.table([values for values, _ in columns.values()], schema=pa.schema(fields))


def sliced_struct() -> pa.Table:
    """40 rows of a struct of 150."""
    return pa.table({"struct": table()["struct"].combine_chunks()}).slice(20, 40)


def _compression(scheme: str) -> dict[str, str]:
    return {"lance-encoding:compression": scheme, "lance:compression": scheme}


def write(data: pa.Table, target: Path) -> None:
    """`data` as the one data file of a table, copied to `target`."""
    import lance

    with tempfile.TemporaryDirectory() as folder:
        # Until 0.16 the version had no name yet, and before 0.15 texts were lists of bytes in two columns.
        named = "data_storage_version" in signature(lance.write_dataset).parameters
        options: dict[str, Any] = {"data_storage_version": "2.0"} if named else {"use_legacy_format": False}
        lance.write_dataset(data, f"{folder}/t", **options)
        [written] = Path(folder, "t", "data").iterdir()
        shutil.copyfile(written, target)


def main() -> None:
    release = version("pylance")
    left_out = sys.argv[1:]
    FOLDER.mkdir(exist_ok=True)
    write(table().drop_columns(left_out) if left_out else table(), FOLDER / f"{release}.lance")
    write(sliced_struct(), FOLDER / f"{release}-sliced.lance")


if __name__ == "__main__":
    main()
