"""Vectors of several shapes and spreads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def spread(num_rows: int, dimension: int, seed: int) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(seed)
    centres = random.normal(size=(30, dimension))
    return centres[random.integers(0, 30, num_rows)] + random.normal(scale=0.2, size=(num_rows, dimension))


def one_large_value(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    values[::40, 1] = 1e6
    values[5::40] *= 1e-6
    return values


def without_values(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    values[::9], values[4, 0], values[5, 0], values[6, 1] = 0, np.nan, np.inf, -np.inf
    return values


SHAPES: dict[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]] = {
    "plain": lambda values: values,
    "far from zero": lambda values: values + 1000,
    "one large value": one_large_value,
    "repeated": lambda values: values[np.arange(len(values)) % 3],
    "zeros, infinity and NaN": without_values,
    "smaller than what float32 holds exactly": lambda values: values * 1e-40,
    "squares of float32 overflow": lambda values: values * 1e19,
    "sums of float32 overflow": lambda values: values * 1e38,
}
