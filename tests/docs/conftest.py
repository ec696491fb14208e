"""One Spark session with the connector, as the README configures it, for all documents."""

from __future__ import annotations

from tests.connector.conftest import jar, root, spark

__all__ = ["jar", "root", "spark"]
