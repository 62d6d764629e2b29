"""The test kit: an emulated cluster inside a test, a pytest plugin, and Hypothesis strategies."""
