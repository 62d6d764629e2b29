"""Notes of machines, grouped by the kind of machine. The import of this package registers all notes."""

from kemu.protocol.notes import consumer_groups, groups, ranges, replication, streams

__all__ = ["consumer_groups", "groups", "ranges", "replication", "streams"]
