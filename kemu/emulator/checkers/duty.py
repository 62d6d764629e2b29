"""A duty of ``duties``, and what its parts have in common."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from kemu.emulator.facts import Seen
from kemu.emulator.watching.control_plane import ControlPlane
from kemu.emulator.watching.panel import Panel
from kemu.protocol.names import STORE

ORDER_US = 5_000_000
"""How long a controller may take to notice, decide, write and tell, with a queue of other work before it."""
TICK_US = 3_000_000
"""How much later than its timeout the store may end a session."""
SETTLE_US = 15_000_000
"""How long a change that a leader or an admin wrote may take to reach everybody."""
ISR_US = 10_000_000
"""How long a leader may take to have its ISR changed."""


class Duty(NamedTuple):
    """A condition that must end.

    Args:
        kind: of ``KINDS``.
        about: the entities.
        parties: hosts that must be undisturbed.
        state: while it stays equal, nothing changes.
        bound_us: how long it may last.
        text: what is wrong.
        not_before_us: the clock does not run before this time.
    """

    kind: str
    about: tuple[str, ...]
    parties: tuple[str, ...]
    state: object
    bound_us: int
    text: str
    not_before_us: int = 0


class Duties:
    """A part of ``duties``: it takes facts after the panel, and says what is owed now."""

    panel: Panel
    violation: Callable[..., None]
    """The checker's: what must not happen at all is said at once."""

    def __init__(self, plane: ControlPlane, create_us: int = 0) -> None:
        self.plane = plane
        self._create_us = create_us
        self.on: Mapping[type, Callable[[Seen, Any], None]] = {}

    def owed(self) -> Iterator[Duty]:
        """The conditions that are there now."""
        raise NotImplementedError

    @property
    def orders_us(self) -> int:
        """How long orders of a controller may take; a LeaderAndIsr may ask for all logs to be created."""
        return ORDER_US + self._create_us * len(self.panel.states)

    def order(self, kind: str, about: tuple[str, ...], host: str, state: object, bound_us: int, text: str) -> Duty:
        """A duty of the controller: an order that a broker lacks."""
        plane = self.plane
        of = (state, plane.epoch, plane.registration(host))
        return Duty(kind, about, (STORE, plane.controller, host), of, bound_us, text, plane.decides_from_us)
