"""Targets of groups with the consumer protocol that Kafka's coordinator computes, beside the emulator's targets."""
