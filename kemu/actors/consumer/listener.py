"""The application's rebalance listener (Kafka's ``ConsumerRebalanceListener``), seen from the consumer.

A callback occupies the polling thread for some time and may raise. The listener states both when the callback begins.
The change of ownership takes effect when the callback ends.
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
    """The callback makes calls itself: ``begin`` is its first step, ``Calls.callback_returns`` its last."""

    begin: Callable[[], None]
    us: int = 0


Outcome: TypeAlias = Took | Raised | Busy


class Listener(Protocol):
    """A rebalance listener, without a clock or randomness of its own: the same inputs lead to the same outcomes."""

    def on_revoked(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        """``onPartitionsRevoked``: the member still owns these partitions and may commit for them."""
        ...

    def on_lost(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        """``onPartitionsLost``: other members may own these partitions already."""
        ...

    def on_assigned(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        """``onPartitionsAssigned``: these partitions are new to the member."""
        ...


class TimedListener:
    """A listener that never raises. The configuration sets its durations (``emulated.on.revoked.ms`` and similar keys),
    or they are drawn.

    A callback without partitions takes the configured time, never a drawn one.
    """

    def __init__(self, config: ConsumerConfig, draws: Draws = CALM) -> None:
        self._draws = draws
        self._revoked_us = config.emulated_on_revoked_ms * 1000
        self._lost_us = config.emulated_on_lost_ms * 1000
        self._assigned_us = config.emulated_on_assigned_ms * 1000

    def on_revoked(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        """Take the time of ``onPartitionsRevoked``."""
        return self._took(DrawName.CALLBACK_REVOKED, self._revoked_us, partitions)

    def on_lost(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        """Take the time of ``onPartitionsLost``."""
        return self._took(DrawName.CALLBACK_LOST, self._lost_us, partitions)

    def on_assigned(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        """Take the time of ``onPartitionsAssigned``."""
        return self._took(DrawName.CALLBACK_ASSIGNED, self._assigned_us, partitions)

    def _took(self, name: DrawName, configured_us: int, partitions: tuple[TopicPartition, ...]) -> Outcome:
        return Took(self._draws.us(name, configured_us) if partitions else configured_us)
