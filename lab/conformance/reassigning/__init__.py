"""Compare a reassignment with a real Kafka: the same plan, the store's contents, and the requests to brokers.

``python -m lab.conformance.reassigning`` compares the stored recordings with the emulator; ``--record`` makes a new
recording (needs Java and Maven).
"""
