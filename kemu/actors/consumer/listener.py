"""The application's rebalance listener (Kafka's ``ConsumerRebalanceListener``), seen from the consumer.

A callback occupies the polling thread for some time and may raise. A listener says how long and whether; it is called
when the callback begins, and what it takes away or gives holds from the end of the callback on.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from kemu.actors.machine import Draws
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.draws import CALM, DrawName
from kemu.protocol.names import TopicPartition


class Took(NamedTuple):
    """The callback returns after this long."""

    us: int = 0


class Raised(NamedTuple):
    """The callback raises after this long."""

    us: int
    why: str


class Busy(NamedTuple):
    """The callback calls others itself: ``begin`` is its first step, and it returns by ``Calls.callback_returns``."""

    begin: Callable[[], None]
    us: int = 0


Outcome: TypeAlias = Took | Raised | Busy


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
    """Takes as long as the configuration says (``emulated.on.revoked.ms`` and its like) or is drawn; never raises.

    A drawn callback takes no time when it is told of no partition.
    """

    def __init__(self, config: ConsumerConfig, draws: Draws = CALM) -> None:
        self._draws = draws
        self._revoked_us = config.emulated_on_revoked_ms * 1000
        self._lost_us = config.emulated_on_lost_ms * 1000
        self._assigned_us = config.emulated_on_assigned_ms * 1000

    def on_revoked(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        """See the class."""
        return self._took(DrawName.CALLBACK_REVOKED, self._revoked_us, partitions)

    def on_lost(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        """See the class."""
        return self._took(DrawName.CALLBACK_LOST, self._lost_us, partitions)

    def on_assigned(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        """See the class."""
        return self._took(DrawName.CALLBACK_ASSIGNED, self._assigned_us, partitions)

    def _took(self, name: DrawName, configured_us: int, partitions: tuple[TopicPartition, ...]) -> Outcome:
        return Took(self._draws.us(name, configured_us) if partitions else configured_us)
