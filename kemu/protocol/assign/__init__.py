"""Assignors: they assign partitions to the members of a group."""
