"""Whole emulated Kafka clusters in one process: real state machines, virtual time, one seed, injected faults."""
