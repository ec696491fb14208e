"""Moves between branches: which versions one contains, fast-forwards, picked versions, and comparisons."""
