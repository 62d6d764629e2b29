"""The error for inputs on which Kafka's class fails."""


class KafkaFails(Exception):
    """Kafka's class throws on this input, never ends, or assigns a partition to a member without a subscription."""
