"""The application's rebalance listener (Kafka's ``ConsumerRebalanceListener``), seen from the consumer.

A callback occupies the polling thread for some time and may raise. A listener says how long and whether; it is called
when the callback begins, and what it takes away or gives holds from the end of the callback on.
"""

from typing import NamedTuple, Protocol, TypeAlias

from kemu.protocol.config import ConsumerConfig
from kemu.protocol.names import TopicPartition


class Took(NamedTuple):
    """The callback returns after this long."""

    us: int = 0


class Raised(NamedTuple):
    """The callback raises after this long."""

    us: int
    why: str


Outcome: TypeAlias = Took | Raised


class Listener(Protocol):
    """Same calls, same outcomes: a listener has no clock and no chance of its own either."""

    def on_revoked(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        """``onPartitionsRevoked``: the member still owns these and may commit for them."""
        ...

    def on_lost(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        """``onPartitionsLost``: others may own these already."""
        ...

    def on_assigned(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        """``onPartitionsAssigned``: these are new."""
        ...


class TimedListener:
    """Takes as long as the configuration says (``emulated.on.revoked.ms`` and its like) and never raises."""

    def __init__(self, config: ConsumerConfig) -> None:
        self._revoked = Took(config.emulated_on_revoked_ms * 1000)
        self._lost = Took(config.emulated_on_lost_ms * 1000)
        self._assigned = Took(config.emulated_on_assigned_ms * 1000)

    def on_revoked(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        """As configured."""
        return self._revoked

    def on_lost(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        """As configured."""
        return self._lost

    def on_assigned(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        """As configured."""
        return self._assigned
