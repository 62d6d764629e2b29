"""The messages, and pure functions for decisions. Nothing here has state that changes.

Internal: the public names are those of ``kemu.api``.
"""
