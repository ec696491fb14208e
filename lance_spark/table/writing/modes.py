"""The modes of a write."""

from __future__ import annotations

CREATE, APPEND, OVERWRITE = "create", "append", "overwrite"
MODES = (CREATE, APPEND, OVERWRITE)
