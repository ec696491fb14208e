"""The connector. In processes of its own: the jar takes over the short name that tests/spark gives to the plug-in."""
