"""What machines report, by whose life it is about; importing this package registers all of it."""

from kemu.protocol.notes import groups, ranges, replication, streams

__all__ = ["groups", "ranges", "replication", "streams"]
