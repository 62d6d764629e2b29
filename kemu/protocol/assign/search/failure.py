"""The error for inputs on which Kafka's class fails."""


class KafkaFails(Exception):
    """The error of Kafka's class: it throws on an input, never ends, or assigns to a member without a subscription."""
