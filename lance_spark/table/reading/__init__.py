"""Reads the rows of one version: scans, samples, rows by position."""
