"""Assignors: pure functions that assign partitions to the members of a consumer group."""
