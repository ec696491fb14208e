"""Settings of the plug-in's sessions."""

from __future__ import annotations

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
