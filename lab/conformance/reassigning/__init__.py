"""A reassignment beside a real Kafka: the same plan, and what the store has and brokers are asked, one by one.

``python -m lab.conformance.reassigning`` compares the recordings that are kept with the emulator; ``--record``
makes a new one (needs Java and Maven).
"""
