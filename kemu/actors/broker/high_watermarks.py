"""A leader's high watermark, and the requests that wait for it (a part of the replicated broker).

The high watermark is recomputed when it may rise: on a new leadership, and when the leader's log, a follower's log or
the ISR changes. Time alone causes no recomputation, although a replica outside the ISR that was recently caught up is
ignored after some time. The next recomputation takes the replica's lag into account.

Source: Kafka's ``Partition.maybeIncrementLeaderHW``, ``Partition.checkEnoughReplicasReachOffset``; 3.7's
``Partition.isUnderMinIsr`` (KAFKA-15583).
"""

from kemu.actors.broker.consumer_fetches import ConsumerFetches
from kemu.actors.broker.produce_calls import ProduceCalls
from kemu.actors.broker.replica import Replica, Role
from kemu.actors.broker.replica_manager import ReplicaManager
from kemu.actors.machine import Machine
from kemu.protocol.errors import ErrorCode
from kemu.protocol.notes.replication import HighWatermarkAdvanced
from kemu.protocol.wire.compile import maker

_LEADER = Role.LEADER
_high_watermark_advanced = maker(HighWatermarkAdvanced)


class HighWatermarks:
    """The high watermarks of the partitions that this broker leads."""

    def __init__(
        self, machine: Machine, manager: ReplicaManager, calls: ProduceCalls, consumer_fetches: ConsumerFetches
    ) -> None:
        self._machine = machine
        self._manager = manager
        self._calls = calls
        self._consumer_fetches = consumer_fetches

    def advance(self, replica: Replica) -> None:
        """Raise a leader's high watermark as far as possible, and answer the requests that waited for the rise."""
        if replica.role is not _LEADER:
            return
        manager = self._manager
        if manager.rules.min_isr_holds_watermark and not manager.enough_in_sync(replica):
            return
        if not replica.raise_watermark(replica.log.stored_end, self._machine.now_us, manager.lag_us, manager.rules):
            return
        self._machine.note(
            _high_watermark_advanced(
                topic=replica.topic,
                partition=replica.number,
                leader_epoch=replica.leader_epoch,
                high_watermark=replica.log.high_watermark,
            )
        )
        if replica.acks:
            enough = manager.enough_in_sync(replica, maximal=True)
            for ack in replica.acks_reached():
                good = enough or not ack.call.asks_for_min_isr
                error = ErrorCode.NONE if good else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
                self._calls.decide(ack.call, ack.row, ack.outcome(error))
        if replica.waiters:
            self._consumer_fetches.grown(replica)
