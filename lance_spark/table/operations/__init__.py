"""The operations of a transaction, one module for each kind."""
