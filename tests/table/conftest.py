from __future__ import annotations

from tests.support.moto import s3_bucket

__all__ = ["s3_bucket"]
