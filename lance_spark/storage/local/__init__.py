"""Local and mounted file systems."""
