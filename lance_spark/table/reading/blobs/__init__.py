"""Blob columns: their descriptions, what they stand for, and scans that return bytes."""
