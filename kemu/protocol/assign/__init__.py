"""Assignors: who gets which partitions."""
