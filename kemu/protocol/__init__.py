"""The language and the decisions: what may be said, and pure functions that decide. Nothing here has a life.

Internal: the public names are those of ``kemu.api``.
"""
