"""The emulator held against recordings of a real Kafka: ``python -m lab.conformance``.

Both sides come down to the same value, a ``Course``: what an operator saw of one plan. ``recordings`` reads it from
the logs of a real cluster, ``emulated`` watches it in a run of the plan's scenario, ``comparing`` puts Kafka's figures
beside those of many seeds, ``tables`` prints them.
"""
