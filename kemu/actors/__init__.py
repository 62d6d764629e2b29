"""The actors: each role is a pure machine, ``step(now_us, event) -> effects``.

The package is internal: ``kemu.api`` has the public names.
"""
