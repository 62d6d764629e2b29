"""The application's rebalance listener (Kafka's ``ConsumerRebalanceListener``), as the consumer calls it.

A callback occupies the polling thread for some time and may raise an error. The listener returns both, the time and the
error, when the callback begins. The change of ownership takes effect when the callback ends.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from kemu.actors.machine import Draws
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.draws import CALM, DrawName
from kemu.protocol.names import TopicPartition


class Took(NamedTuple):
    """The outcome of a callback that returns after this time."""

    us: int = 0


class Raised(NamedTuple):
    """The outcome of a callback that raises an error after this time."""

    us: int
    why: str


class Busy(NamedTuple):
    """The outcome of a callback that makes calls: ``begin`` is its first step, ``Calls.callback_returns`` its last."""

    begin: Callable[[], None]
    us: int = 0


Outcome: TypeAlias = Took | Raised | Busy


class Listener(Protocol):
    """A rebalance listener without a clock and without random numbers: the same inputs lead to the same outcomes."""

    def on_revoked(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        """Run ``onPartitionsRevoked``: the member still owns these partitions and may commit their offsets."""
        ...

    def on_lost(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        """Run ``onPartitionsLost``: other members may already own these partitions."""
        ...

    def on_assigned(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        """Run ``onPartitionsAssigned``: these partitions are new to the member."""
        ...


class TimedListener:
    """A listener that never raises an error. The configuration sets the durations of its callbacks
    (``emulated.on.revoked.ms`` and similar keys), or the durations are drawn.

    A callback without partitions takes the configured time, never a drawn time.
    """

    def __init__(self, config: ConsumerConfig, draws: Draws = CALM) -> None:
        self._draws = draws
        self._revoked_us = config.emulated_on_revoked_ms * 1000
        self._lost_us = config.emulated_on_lost_ms * 1000
        self._assigned_us = config.emulated_on_assigned_ms * 1000

    def on_revoked(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        """The configured or drawn time of ``onPartitionsRevoked``."""
        return self._took(DrawName.CALLBACK_REVOKED, self._revoked_us, partitions)

    def on_lost(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        """The configured or drawn time of ``onPartitionsLost``."""
        return self._took(DrawName.CALLBACK_LOST, self._lost_us, partitions)

    def on_assigned(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        """The configured or drawn time of ``onPartitionsAssigned``."""
        return self._took(DrawName.CALLBACK_ASSIGNED, self._assigned_us, partitions)

    def _took(self, name: DrawName, configured_us: int, partitions: tuple[TopicPartition, ...]) -> Outcome:
        return Took(self._draws.us(name, configured_us) if partitions else configured_us)
