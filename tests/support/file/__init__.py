"""What tests of several modules of `file` share."""
