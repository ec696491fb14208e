"""Scans: push-down, plans and rows."""
