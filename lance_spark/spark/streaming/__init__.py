"""Streaming queries: options, offsets, rate limits, and what versions are to a stream."""
