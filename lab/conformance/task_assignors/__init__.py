"""Kafka Streams' own task assignors, called on random cases, beside the emulator's."""
