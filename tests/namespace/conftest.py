from __future__ import annotations

from tests.support.catalog_roots import root
from tests.support.moto import s3_bucket

__all__ = ["root", "s3_bucket"]
