"""What tests of several modules of `table` share."""
