"""Streams: sources and sinks."""
