"""All messages, grouped by sender; importing this package registers all of them."""

from kemu.protocol.messages import control, data, group, local, negotiation, offsets_log, ranges, store

__all__ = ["control", "data", "group", "local", "negotiation", "offsets_log", "ranges", "store"]
