"""Plots of the Spark benchmark for light and for dark pages."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

PLOTS = {"benchmark-light.svg": "#202124", "benchmark-dark.svg": "#e8eaed"}
"""The plots, and the colours of their texts and lines."""

_RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "spark-compare.json"
_FASTER, _SLOWER = "#26a69a", "#ff8a65"
_TICKS = [0.7, 1, 2, 3, 5]


def write(folder: Path) -> None:
    """Writes the plots into the folder."""
    run = json.loads(_RESULTS.read_text(encoding="utf-8"))
    for name, colour in PLOTS.items():
        style = {f"{part}.color": colour for part in ("text", "xtick", "ytick")}
        style |= {"axes.edgecolor": colour, "axes.labelcolor": colour, "svg.hashsalt": "lance-spark"}
        with rc_context(style):
            _write(run, colour, folder / name)


def _write(run: dict[str, Any], colour: str, path: Path) -> None:
    tpch = run["ratios"]["tpch"]
    single = {name: ratio for group, cases in run["ratios"].items() if group != "tpch" for name, ratio in cases.items()}
    figure = Figure(figsize=(7.6, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _bars(left, {name.upper(): ratio for name, ratio in tpch.items()}, colour)
    left.set_title(f"TPC-H at scale {run['scale']}, geometric mean {geometric_mean(tpch.values()):.2f}", fontsize=10)
    _bars(right, single, colour)
    right.set_title(f"Single queries, geometric mean {geometric_mean(single.values()):.2f}", fontsize=10)
    figure.supxlabel("times as fast as Spark's Parquet", fontsize=10)
    figure.savefig(path, metadata={"Date": None}, transparent=True)


def _bars(axes: Axes, ratios: dict[str, float], colour: str) -> None:
    """Draws a bar for each ratio, from 1 to it, on a logarithmic axis."""
    places = range(len(ratios))
    colours = [_FASTER if ratio >= 1 else _SLOWER for ratio in ratios.values()]
    axes.barh(places, [ratio - 1 for ratio in ratios.values()], left=1, color=colours)
    for place, ratio in zip(places, ratios.values(), strict=True):
        axes.annotate(
            f"{ratio:.2f}", (max(ratio, 1), place), (3, 0), textcoords="offset points", va="center", fontsize=7
        )
    axes.set_xscale("log")
    axes.set_xticks(_TICKS, [f"{tick:g}" for tick in _TICKS])
    axes.minorticks_off()
    axes.set_xlim(min(_TICKS[0], *ratios.values()), 1.4 * max(_TICKS[-1], *ratios.values()))
    axes.set_yticks(places, list(ratios), fontsize=8)
    axes.invert_yaxis()
    axes.axvline(1, color=colour, linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
