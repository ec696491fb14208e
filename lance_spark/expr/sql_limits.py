"""How deep a filter may be."""

from __future__ import annotations

MAX_DEPTH = 50
"""Maximum nesting depth of parentheses, NOT, unary minus and function calls."""

MAX_TREE_DEPTH = 100
"""Maximum depth of the tree; a chain such as a + b + c nests to the left. AND, OR and IN take any number of terms."""
