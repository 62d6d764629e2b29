"""All messages, grouped by sender. The import of this package registers all messages."""

from kemu.protocol.messages import consumer_group, control, data, group, local, negotiation, offsets_log, ranges, store

__all__ = ["consumer_group", "control", "data", "group", "local", "negotiation", "offsets_log", "ranges", "store"]
