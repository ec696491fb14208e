"""Publishing a version, and what it may conflict with."""
