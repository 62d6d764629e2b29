"""The test kit: an emulated cluster inside a test, a pytest plugin around it, Hypothesis strategies beside it."""
