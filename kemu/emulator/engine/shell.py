"""The one shell: a Trio task around any machine."""

from kemu.emulator.engine.ports import Port


async def run_actor(port: Port) -> None:
    """Take events until cancelled.

    There is no await between a step and its effects: a crash falls before a turn or after it, never inside. A crash is
    a power cut, so there is nothing to clean up here: no ``finally`` may say goodbye.
    """
    while True:
        event = await port.next_event()
        port.take_turn(event)
