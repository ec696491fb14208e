"""Makes one-line faults with the operators of cosmic-ray, and prints the share that the tests of each area find.

    python -m tests.mutants [--seed 1] [--area NAME] [--faults N] [--tree FOLDER] [--jobs 2] [--output FILE]

The same seed makes the same faults in the same sources, so two suites of tests are compared over one list. Each fault
is made in a copy of the tree. A fault that ends the tests by a failure, an error or their time limit counts as found;
the others are survivors.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

from tests.mutants.areas import AREAS, Area

# Others break every import (decorators), need arguments, or only change which exception is caught.
OPERATORS = ("ReplaceComparisonOperator", "ReplaceBinaryOperator", "ReplaceUnaryOperator", "AddNot", "ReplaceAndWithOr")
OPERATORS += ("ReplaceOrWithAnd", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceBreakWithContinue")
OPERATORS += ("ReplaceContinueWithBreak", "NumberReplacer", "ZeroIterationForLoop")
COPIED = (
    "lance_spark",
    "pyspark_lance",
    "tests",
    "docs",
    "examples",
    "benchmarks",
    "proto",
    "pyproject.toml",
    "README.md",
)


@dataclass(frozen=True)
class Fault:
    """A change of one line of a module."""

    module: str
    operator: str
    line: int
    before: str
    after: str
    text: str  # The module with the fault.


@dataclass(frozen=True)
class Verdict:
    """Outcome of the tests of an area with one fault in the package."""

    area: str
    module: str
    line: int
    before: str
    after: str
    outcome: str  # failed, error, timeout, survived
    seconds: float
    last_line: str


def behaviour(source: str) -> str:
    """Return the syntax tree of `source` without annotations, docstrings, decorators and assertions."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if getattr(node, name, None) is not None:
                setattr(node, name, ast.Constant(value=None))
        if getattr(node, "decorator_list", None):
            node.decorator_list = []  # type: ignore[attr-defined]
        if isinstance(node, ast.Assert):
            node.test = ast.Constant(value=True)
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            body[0].value = body[0].value if not isinstance(body[0].value, ast.Constant) else ast.Constant(value=None)
    return ast.dump(tree)


def places_of_module(path: Path) -> dict[int, list[tuple[str, int]]]:
    """Return the operators that change each line of a module, each with the occurrence that it has to change."""
    nodes = list(ast_nodes(get_ast(path.read_text())))
    places: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for name in operator_names():
        if name.rpartition("/")[2].startswith(OPERATORS):
            operator = get_operator(name)()
            starts = (start for node in nodes for start, _ in operator.mutation_positions(node))
            for occurrence, (line, _) in enumerate(starts):
                places[line].append((name, occurrence))
    return places


def make_fault(path: Path, tree: Path, operator: str, occurrence: int) -> Fault | None:
    """Make one fault, or return None if the module would run as before or not at all."""
    source = path.read_text()
    text = mutate_code(source, get_operator(operator)(), occurrence)
    try:
        if text is None or behaviour(text) == behaviour(source):
            return None
    except SyntaxError:  # `*` of a signature is no operator.
        return None
    changed = list(difflib.unified_diff(source.splitlines(), text.splitlines(), lineterm="", n=0))
    line = int(changed[2].split()[1].lstrip("-").split(",")[0])
    return Fault(str(path.relative_to(tree)), operator, line, changed[3][1:].strip(), changed[-1][1:].strip(), text)


def choose(area: Area, tree: Path, seed: int, count: int) -> list[Fault]:
    """Choose `count` faults of an area: modules by their number of lines, then a line, then a fault of that line."""
    rng = random.Random(f"{seed} {area.name}")
    modules = area.module_files(tree)
    weights = [path.read_text().count("\n") for path in modules]
    places: dict[Path, dict[int, list[tuple[str, int]]]] = {}
    chosen: list[Fault] = []
    while len(chosen) < count and any(weights):
        (path,) = rng.choices(modules, weights)
        if path not in places:
            places[path] = places_of_module(path)
        if not places[path]:
            weights[modules.index(path)] = 0
            continue
        line = rng.choice(sorted(places[path]))
        fault = make_fault(path, tree, *rng.choice(places[path].pop(line)))
        if fault is not None:
            chosen.append(fault)
    return chosen


def copy_of(tree: Path, folder: Path) -> Path:
    """Copy what the tests need of `tree` into `folder`."""
    for name in COPIED:
        source = tree / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("*.nbi", "*.nbc"))
        elif source.exists():
            shutil.copy2(source, folder / name)
    return folder


def run_tests(area: Area, copy: Path, limit: float | None) -> tuple[str, float, str]:
    """Run the tests of an area in a copy: the outcome, the seconds, and pytest's last line."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "LANCE_SEED": "1",
        "CI": "true",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--durations=0", "-p", "no:cacheprovider"]
    command += [str(path.relative_to(copy)) for path in area.test_files(copy)]
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command, cwd=copy, env=environment, stdout=output, stderr=output, start_new_session=True
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            return "timeout", time.monotonic() - began, f"more than {limit:.0f} s"
        output.seek(0)
        lines = [line for line in output.read().splitlines() if line.strip()]
    failures = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    last = (failures or lines or ["no output"])[-1]
    return {0: "survived", 1: "failed"}.get(code, "error"), time.monotonic() - began, last


def try_fault(area: Area, fault: Fault, copies: SimpleQueue[Path], limit: float) -> Verdict:
    """Run the tests of an area with one fault in a free copy, and take the fault back."""
    copy = copies.get()
    path = copy / fault.module
    source = path.read_text()
    try:
        path.write_text(fault.text)
        outcome, seconds, last = run_tests(area, copy, limit)
    finally:
        path.write_text(source)
        copies.put(copy)
    return Verdict(area.name, fault.module, fault.line, fault.before, fault.after, outcome, round(seconds, 1), last)


def run_area(area: Area, tree: Path, copies: list[Path], seed: int, count: int) -> list[Verdict]:
    """Try the faults of an area, as many at once as there are copies. The tests must pass without a fault."""
    outcome, seconds, last = run_tests(area, copies[0], None)
    if outcome != "survived":
        raise SystemExit(f"{area.name}: the tests do not pass without a fault: {last}")
    free: SimpleQueue[Path] = SimpleQueue()
    for copy in copies:
        free.put(copy)
    verdicts: list[Verdict] = []
    with ThreadPoolExecutor(len(copies)) as pool:
        for verdict in pool.map(
            lambda fault: try_fault(area, fault, free, 4 * seconds + 60), choose(area, tree, seed, count)
        ):
            verdicts.append(verdict)
            print(f"{verdict.outcome:9}{verdict.seconds:7.1f} s  {verdict.module}:{verdict.line}", flush=True)
            print(f"    - {verdict.before}\n    + {verdict.after}\n    {verdict.last_line[:160]}", flush=True)
    return verdicts


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--area", choices=[area.name for area in AREAS], action="append")
    parser.add_argument("--faults", type=int, help="faults of each area instead of its own number")
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[2], help="the sources and tests to use")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, help="a JSON file for all verdicts")
    arguments = parser.parse_args()
    tree = arguments.tree.resolve()
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory(prefix="mutants") as scratch:
        copies = [copy_of(tree, Path(scratch) / str(number)) for number in range(arguments.jobs)]
        for area in AREAS:
            if not arguments.area or area.name in arguments.area:
                verdicts += run_area(area, tree, copies, arguments.seed, arguments.faults or area.faults)
                if arguments.output:
                    arguments.output.write_text(json.dumps([asdict(verdict) for verdict in verdicts], indent=1))
    for area in AREAS:
        own = [verdict for verdict in verdicts if verdict.area == area.name]
        if own:
            caught = sum(verdict.outcome != "survived" for verdict in own)
            print(f"{area.name:22}{caught:4} of {len(own):4}")
    caught = sum(verdict.outcome != "survived" for verdict in verdicts)
    print(f"{'all':22}{caught:4} of {len(verdicts):4} = {caught / max(len(verdicts), 1):.1%}")


main()
