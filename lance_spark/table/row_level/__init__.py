"""DELETE, UPDATE and MERGE: which rows go, which come, and what becomes of their ids."""
