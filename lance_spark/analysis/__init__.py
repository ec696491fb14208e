"""Text analysis for full-text search: texts become terms with positions."""
