"""A duty of the checker ``duties``, and the base class of the sources of duties."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from kemu.emulator.facts import Seen
from kemu.emulator.watching.control_plane import ControlPlane
from kemu.emulator.watching.panel import Panel
from kemu.protocol.names import STORE

ORDER_US = 5_000_000
"""Longest time in which a controller detects a change, decides, writes and sends a request, with earlier work queued,
in us."""
TICK_US = 3_000_000
"""Longest delay of the store's end of a session, in us."""
SETTLE_US = 15_000_000
"""Longest time for a leader's or admin's change to reach all brokers, in us."""
ISR_US = 10_000_000
"""Longest time for a leader's ISR change, in us."""


class Duty(NamedTuple):
    """A condition that must end.

    Args:
        kind: one of the kinds of the checker.
        about: the affected entities.
        parties: hosts that must be undisturbed.
        state: the state of the entities; any change restarts the clock.
        bound_us: the longest duration of the condition.
        text: a description of the condition.
        not_before_us: earliest start of the clock.
    """

    kind: str
    about: tuple[str, ...]
    parties: tuple[str, ...]
    state: object
    bound_us: int
    text: str
    not_before_us: int = 0


class Duties:
    """A source of duties, which takes facts after the panel."""

    panel: Panel
    violation: Callable[..., None]
    """The checker's method that reports a violation, for rules without a bound."""

    def __init__(self, plane: ControlPlane, create_us: int = 0) -> None:
        self.plane = plane
        self._create_us = create_us
        self.on: Mapping[type, Callable[[Seen, Any], None]] = {}

    def owed(self) -> Iterator[Duty]:
        """The duties that are open now."""
        raise NotImplementedError

    @property
    def orders_us(self) -> int:
        """Longest time of a controller's request, in us. A LeaderAndIsr may create all logs."""
        return ORDER_US + self._create_us * len(self.panel.states)

    def order(self, kind: str, about: tuple[str, ...], host: str, state: object, bound_us: int, text: str) -> Duty:
        """A duty of the controller to send a missing request to a broker."""
        plane = self.plane
        of = (state, plane.epoch, plane.registration(host))
        return Duty(kind, about, (STORE, plane.controller, host), of, bound_us, text, plane.decides_from_us)
