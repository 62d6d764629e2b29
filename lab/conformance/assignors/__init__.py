"""Kafka's own consumer assignors, called on random groups step by step, beside the emulator's."""
