"""Defaults of searches by vectors."""

from __future__ import annotations

DEFAULT_K = 10
DEFAULT_RRF_K = 60.0
