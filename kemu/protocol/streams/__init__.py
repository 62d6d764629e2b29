"""Kafka Streams, decided: tasks, the bytes that members exchange, and who gets which task.

Sources: KIP-429 as its page stood at version 99 (learner tasks), KIP-441, Kafka's own task assignors.
"""
