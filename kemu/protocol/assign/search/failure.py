"""Where there is nothing to be equal to."""


class KafkaFails(Exception):
    """Kafka's class throws on this input, never ends, or gives a member what it did not subscribe to."""
