"""Layouts around messages: times, levels, loggers, and what collectors and people add."""
