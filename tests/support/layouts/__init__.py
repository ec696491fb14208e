"""What tests of several modules of `layouts` share."""
