"""The change feed: which rows were added, updated or deleted between two versions."""
