"""Compare the emulator with recordings of a real Kafka: ``python -m lab.conformance``.

Both sides become the same kind of value, a ``Course``: an operator's view of one plan. ``recordings`` reads a course
from the logs of a real cluster. ``emulated`` observes a course in a run of the plan's scenario. ``comparing`` compares
Kafka's figures with the figures of many seeds, and ``tables`` prints the results.
"""
