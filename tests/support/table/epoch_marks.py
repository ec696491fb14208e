"""Harms of commits that carry a mark."""

from __future__ import annotations

from lance_spark.storage.faults import Harm

HARMS = (Harm.FAILS, Harm.FAILS_AFTERWARDS)


PUT_HARMS = (*HARMS, Harm.NOT_SENT, Harm.ANSWER_LOST, Harm.SENT_TWICE)
