"""The interface between the task of an actor and the world."""

from collections.abc import Awaitable
from typing import Protocol

from kemu.actors.machine import Event


class Port(Protocol):
    """The only access of an actor's task to the world."""

    def next_event(self) -> Awaitable[Event]:
        """Wait for the next event of this actor."""
        ...

    def take_turn(self, event: Event) -> None:
        """Step the machine with the event, record the step and perform its effects, without waiting in between."""
        ...
