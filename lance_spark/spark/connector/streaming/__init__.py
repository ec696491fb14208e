"""Streaming queries of the connector: sources and sinks."""
