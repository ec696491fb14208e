"""Old versions, and files that no version names."""
