"""Decisions of Kafka Streams: tasks, the metadata that members exchange, and the assignment of tasks.

Sources: KIP-429's page at version 99 (learner tasks), KIP-441, Kafka's own task assignors.
"""
