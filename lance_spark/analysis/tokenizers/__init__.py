"""Cutting texts into tokens, one kind of tokenizer a file."""
