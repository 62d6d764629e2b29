"""The Trio task of an actor; the same function runs any machine."""

from kemu.emulator.engine.ports import Port


async def run_actor(port: Port) -> None:
    """Wait for events and take turns until cancelled.

    No ``await`` separates a step from its effects, so a crash occurs before or after a turn, never within a turn. After
    a crash, no ``finally`` may send a message.
    """
    while True:
        event = await port.next_event()
        port.take_turn(event)
