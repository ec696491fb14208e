"""The examples of the docs, run."""
