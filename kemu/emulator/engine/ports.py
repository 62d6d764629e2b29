"""What a shell asks of the world it runs in."""

from typing import Protocol

from kemu.actors.machine import Event


class Port(Protocol):
    """An actor's only way to the world."""

    async def next_event(self) -> Event:
        """Wait for the next event of this actor."""
        ...

    def take_turn(self, event: Event) -> None:
        """Step the machine with the event, record the step, perform its effects: all in one go, without waiting."""
        ...
