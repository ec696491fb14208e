"""CALL and the statements of maintenance."""
