"""Compare the emulator with recordings of a real Kafka: ``python -m lab.conformance``.

``python -m lab.conformance --plans PLANS --seeds N --most-times 1`` has the exit code 1 if a row differs; the function
``lab.conformance.plans.differences`` returns the differing rows. A table of breaks calls the function after it changed
the emulator in its process.

Both sides become the same kind of value, a ``Course``: an operator's view of one plan. ``recordings`` reads a course
from the logs of a real cluster. ``emulated`` observes a course in a run of the plan's scenario. ``comparing`` compares
Kafka's run with the runs of many seeds, ``excuses`` limits the differences that do not count, ``ranks`` tests several
runs of Kafka, and ``tables`` prints the results.
"""
