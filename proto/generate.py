"""Generates lance_spark/_proto from the .proto files beside this script; ``--check`` only compares.

The files register themselves in protobuf's process-wide pool under their path, so they lie below
``lance_spark/_proto`` here too: no other library's ``table.proto`` can collide with them.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).parent
PACKAGE = Path("lance_spark") / "_proto"
TARGET = ROOT.parent


def generate(target: Path) -> None:
    """Writes the modules and their type stubs below `target`."""
    sources = sorted(str(path.relative_to(ROOT)) for path in (ROOT / PACKAGE).glob("*.proto"))
    plugin = Path(sys.executable).with_name("protoc-gen-mypy")
    well_known = Path(protoc.__file__).parent / "_proto"
    status = protoc.main(
        [
            "protoc",
            f"-I{ROOT}",
            f"-I{well_known}",
            f"--plugin=protoc-gen-mypy={plugin}",
            f"--python_out={target}",
            f"--mypy_out=quiet:{target}",
            *sources,
        ]
    )
    if status:
        raise SystemExit(status)


def modules(root: Path) -> dict[str, bytes]:
    """Name and content of every generated module below `root`."""
    return {path.name: path.read_bytes() for path in (root / PACKAGE).glob("*_pb2.py*")}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh, present = modules(Path(folder)), modules(TARGET)
    differing = sorted(name for name in fresh.keys() | present.keys() if fresh.get(name) != present.get(name))
    if "--check" in sys.argv[1:]:
        if differing:
            raise SystemExit(f"out of date, run `make proto`: {', '.join(differing)}")
        return
    for name in differing:
        path = TARGET / PACKAGE / name
        if name in fresh:
            path.write_bytes(fresh[name])
        else:
            path.unlink()


if __name__ == "__main__":
    main()
