"""Addresses of arrays, for kernels."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt


def address_of(array: npt.NDArray[Any]) -> int:
    """Address of the first element of a C-contiguous array; the caller must keep the array alive during the call."""
    return int(array.__array_interface__["data"][0])
