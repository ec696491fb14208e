"""What tests of several modules of `proto` share."""
