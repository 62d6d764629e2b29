"""The actors: each role is a pure machine, ``step(now_us, event) -> effects``.

Internal: ``kemu.api`` has the public names.
"""
