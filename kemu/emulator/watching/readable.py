"""The end of each partition that readers can learn (part of the panel).

A broker that believes to be the leader reports its high watermark. Without replication, readers learn the end of the
log. A deposed leader that does not know its successor may report less than the successor. Source: Kafka 3.4
``Partition.fetchOffsetForTimestamp``.
"""

from collections.abc import Callable
from typing import Any

from kemu.emulator.facts import HostDown, Seen
from kemu.emulator.watching.logs import WatchedLogs
from kemu.protocol.names import ActorName, TopicPartition, host_of
from kemu.protocol.notes.replication import BecameFollower, BecameLeader, HighWatermarkAdvanced, ReplicaStopped


class ReadableEnds:
    """The readable ends of all partitions."""

    def __init__(self, logs: WatchedLogs) -> None:
        self._logs = logs
        self._watermarks: dict[TopicPartition, dict[ActorName, int]] = {}
        """Partition -> broker that believes to lead the partition -> high watermark."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            HighWatermarkAdvanced: self._advanced,
            BecameLeader: self._leads,
            BecameFollower: self._stops_leading,
            ReplicaStopped: self._stops_leading,
            HostDown: self._down,
        }

    def end(self, at: TopicPartition) -> int:
        """The lowest end that any broker may answer now."""
        return min([self._logs.of(at).records.end, *self._watermarks.get(at, {}).values()])

    def _advanced(self, seen: Seen, fact: HighWatermarkAdvanced) -> None:
        leading = self._watermarks.get((fact.topic, fact.partition))
        if leading is not None and seen.actor in leading:
            leading[seen.actor] = fact.high_watermark

    def _leads(self, seen: Seen, fact: BecameLeader) -> None:
        self._watermarks.setdefault((fact.topic, fact.partition), {})[seen.actor] = fact.high_watermark

    def _stops_leading(self, seen: Seen, fact: BecameFollower | ReplicaStopped) -> None:
        self._watermarks.get((fact.topic, fact.partition), {}).pop(seen.actor, None)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        for watermarks in self._watermarks.values():
            for actor in [actor for actor in watermarks if host_of(actor) == fact.host]:
                del watermarks[actor]
