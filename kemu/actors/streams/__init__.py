"""Kafka Streams: an instance, its threads, their tasks."""
