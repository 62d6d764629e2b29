"""Who acts: each role a pure machine, ``step(now_us, event) -> effects``.

Internal: the public names are those of ``kemu.api``.
"""
