"""Versions on disk: manifests, transaction files, history, feature flags, index metadata."""
