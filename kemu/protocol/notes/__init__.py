"""Notes of machines, grouped by the kind of machine; importing this package registers all of them."""

from kemu.protocol.notes import groups, ranges, replication, streams

__all__ = ["groups", "ranges", "replication", "streams"]
