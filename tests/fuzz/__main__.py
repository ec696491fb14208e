"""`make fuzz`: damaged files, manifests, transactions, deletion files and filters, for some minutes.

LANCE_FUZZ_SECONDS bounds the time, LANCE_SEED is where the seeds begin, LANCE_FUZZ_TARGETS names some targets, and
LANCE_FUZZ_FOLDER is where inputs that crash, hang, take too much memory or raise anything but a LanceError are kept.
`python -m tests.fuzz TARGET FILE` runs a kept input again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.targets import TARGETS

ROUND_SECONDS = 20.0


def main() -> int:
    seconds = float(os.environ.get("LANCE_FUZZ_SECONDS", "300"))
    seeds = dict.fromkeys(TARGETS, int(os.environ.get("LANCE_SEED", "0")))
    names = os.environ.get("LANCE_FUZZ_TARGETS", " ".join(TARGETS)).split()
    kept = Path(os.environ.get("LANCE_FUZZ_FOLDER", "fuzz-findings"))
    stop = time.monotonic() + seconds
    found = ran = 0
    while time.monotonic() < stop:
        for name in names:
            left = min(ROUND_SECONDS, max(stop - time.monotonic(), 1.0))
            first = seeds[name]
            last, is_finding = _round(name, first, left, kept)
            seeds[name], ran, found = last + 1, ran + last + 1 - first, found + is_finding
    print(f"{ran} inputs, {found} findings{f' in {kept}' if found else ''}; next seeds {seeds}")  # noqa: T201
    return 1 if found else 0


def _round(target: str, seed: int, seconds: float, kept: Path) -> tuple[int, bool]:
    """(the last seed that ran, whether it is a finding)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "tests.fuzz.worker", target, str(seed), str(seconds), name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        last = int((folder / "seed").read_text()) if (folder / "seed").exists() else seed
        if done.returncode == 0:
            return last, False
        kept.mkdir(parents=True, exist_ok=True)
        case = kept / f"{target}-{last}"
        if (folder / "current").exists():
            shutil.copy(folder / "current", case)
        error = folder / "error"
        report = error.read_text() if error.exists() else f"exit status {done.returncode}\n{done.stderr}"
        case.with_suffix(".txt").write_text(report)
        print(f"{target} {last}: {report.strip().splitlines()[-1][:200]}")  # noqa: T201
        return last, True


if __name__ == "__main__":
    if len(sys.argv) == 3:
        TARGETS[sys.argv[1]].run(Path(sys.argv[2]).read_bytes())
    else:
        sys.exit(main())
