"""What tests of several modules of `plugin` share."""
