"""What tests of several modules of `kernels` share."""
