"""Numbers of the Spark benchmark: a table of ratios, and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Timing:
    """One case.

    Attributes:
        seconds: of every run, by format.
        cpu: seconds of processors, of Spark's JVM and its Python workers together, by format. What others do on the
            machine changes them less than `seconds`.
    """

    group: str
    name: str
    seconds: dict[str, list[float]]
    cpu: dict[str, list[float]]

    def ratio(self, kind: str, of: str = "seconds") -> float | None:
        """How many times as fast as Spark's Parquet, or with ``of="cpu"`` as thrifty: medians; None where unknown."""
        values: dict[str, list[float]] = getattr(self, of)
        mine, parquet = values.get(kind), values.get("parquet")
        if not mine or not parquet or min(median(mine), median(parquet)) <= 0:
            return None  # The time of a process that nobody has waited for is lost, more than a short query takes.
        return median(parquet) / median(mine)


@dataclass(frozen=True)
class Run:
    """All timings and what they were taken under.

    Attributes:
        load: the machine's load averages before and after.
    """

    scale: str
    rounds: int
    load: tuple[float, float]
    timings: list[Timing]

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    def save_ratios(self, path: Path) -> None:
        """Writes how many times as fast as Parquet the connector is, by group and case: what the plots show."""
        ratios: dict[str, dict[str, float]] = {}
        for timing in self.timings:
            if (ratio := timing.ratio("lance")) is not None:
                ratios.setdefault(timing.group, {})[timing.name] = round(ratio, 3)
        document = {"scale": self.scale, "rounds": self.rounds, "load": self.load, "ratios": ratios}
        path.write_text(json.dumps(document, indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Run:
        document: dict[str, Any] = json.loads(path.read_text())
        timings = [Timing(**timing) for timing in document.pop("timings")]
        return cls(**{**document, "load": tuple(document["load"]), "timings": timings})


def geometric_mean(ratios: Iterable[float | None]) -> float:
    """Of the ratios that are there; NaN if none is."""
    logs = [math.log(ratio) for ratio in ratios if ratio is not None]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def text(run: Run, kinds: tuple[str, ...]) -> str:
    """The run as a table: medians in milliseconds, ratios to Parquet, geometric means of each group and of all."""
    others = [kind for kind in kinds if kind != "parquet"]
    ratios = [(kind, of) for kind in others for of in ("seconds", "cpu")]
    titles = [f"{kind} ms" for kind in kinds] + [f"{kind} {'x' if of == 'seconds' else 'cpu x'}" for kind, of in ratios]
    lines = [f"{'':32}" + "".join(f"{title:>20}" for title in titles)]
    for timing in run.timings:
        cells = [_milliseconds(timing.seconds.get(kind)) for kind in kinds]
        cells += [_number(timing.ratio(kind, of)) for kind, of in ratios]
        lines.append(f"{timing.group:8}{timing.name:24}" + "".join(f"{cell:>20}" for cell in cells))
    for group in [*dict.fromkeys(timing.group for timing in run.timings), "all"]:
        chosen = [timing for timing in run.timings if group in ("all", timing.group)]
        means = [geometric_mean(timing.ratio(kind, of) for timing in chosen) for kind, of in ratios]
        lines.append(f"{group:8}{'geometric mean':{24 + 20 * len(kinds)}}" + "".join(f"{mean:20.2f}" for mean in means))
    load = f"load {run.load[0]:.1f} before, {run.load[1]:.1f} after"
    return "\n".join([*lines, f"scale {run.scale}, median of {run.rounds} runs, x = times as fast as Parquet; {load}"])


def _milliseconds(seconds: list[float] | None) -> str:
    return f"{median(seconds) * 1000:.0f}" if seconds else "failed"


def _number(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"
