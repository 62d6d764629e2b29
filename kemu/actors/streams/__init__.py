"""Kafka Streams: an instance, its threads, and the tasks of each thread."""
