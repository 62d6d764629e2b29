"""Up to where readers of a partition can be told that its records go (a part of the panel).

A broker that takes itself for the leader tells its high watermark. Where brokers do not replicate it is the log's end.
A leader that does not know of its successor yet may tell less than the successor has.
Source: Kafka 3.4 ``Partition.fetchOffsetForTimestamp``.
"""

from collections.abc import Callable
from typing import Any

from kemu.emulator.facts import HostDown, Seen
from kemu.emulator.watching.logs import WatchedLogs
from kemu.protocol.names import ActorName, TopicPartition, host_of
from kemu.protocol.notes.replication import BecameFollower, BecameLeader, HighWatermarkAdvanced, ReplicaStopped


class ReadableEnds:
    """See the module."""

    def __init__(self, logs: WatchedLogs) -> None:
        self._logs = logs
        self._watermarks: dict[TopicPartition, dict[ActorName, int]] = {}
        """The high watermark of each broker that takes itself for the partition's leader."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            HighWatermarkAdvanced: self._advanced,
            BecameLeader: self._leads,
            BecameFollower: self._leads_no_more,
            ReplicaStopped: self._leads_no_more,
            HostDown: self._down,
        }

    def end(self, at: TopicPartition) -> int:
        """The offset that whoever asks now where the partition ends is told at least."""
        return min([self._logs.of(at).records.end, *self._watermarks.get(at, {}).values()])

    def _advanced(self, seen: Seen, fact: HighWatermarkAdvanced) -> None:
        leading = self._watermarks.get((fact.topic, fact.partition))
        if leading is not None and seen.actor in leading:
            leading[seen.actor] = fact.high_watermark

    def _leads(self, seen: Seen, fact: BecameLeader) -> None:
        self._watermarks.setdefault((fact.topic, fact.partition), {})[seen.actor] = fact.high_watermark

    def _leads_no_more(self, seen: Seen, fact: BecameFollower | ReplicaStopped) -> None:
        self._watermarks.get((fact.topic, fact.partition), {}).pop(seen.actor, None)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        for watermarks in self._watermarks.values():
            for actor in [actor for actor in watermarks if host_of(actor) == fact.host]:
                del watermarks[actor]
