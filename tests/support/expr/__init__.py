"""What tests of several modules of `expr` share."""
