"""The shell: a Trio task that runs any machine."""

from kemu.emulator.engine.ports import Port


async def run_actor(port: Port) -> None:
    """Take events until cancelled.

    There is no await between a step and its effects, so a crash comes before or after a turn, never within. A crash is
    a power cut: no ``finally`` may send a message.
    """
    while True:
        event = await port.next_event()
        port.take_turn(event)
