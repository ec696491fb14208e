"""Text, vector and hybrid searches."""
