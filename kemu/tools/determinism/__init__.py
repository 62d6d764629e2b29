"""Determinism: a sample of the runs of each sweep is repeated in another process with another hash seed."""
