"""The replicated ``__consumer_offsets`` on a broker: the broker has the logs, the coordinator their content.

The module is a part of the replicated broker. The group coordinator is another actor of the same process
(``b0/coordinator``). When this broker begins to lead a partition of the offsets topic, it sends the whole log to the
coordinator. The broker also informs the coordinator when it stops leading. The coordinator's writes arrive as
``AppendGroups``, and are answered when they are below the high watermark. So a coordinator elected from the in-sync
replicas knows all acknowledged writes.

Source: Kafka 2.8's ``GroupMetadataManager.storeGroup``/``storeOffsets`` (acks=-1, ``offsets.commit.timeout.ms``),
``GroupCoordinator.onElection``/``onResignation``; ``CoordinatorPartitionWriter.append`` of the Java coordinator
(acks=1, and a listener to the high watermark).
"""

from collections.abc import Callable, Mapping

from kemu.actors.broker.led_partitions import LedPartitions
from kemu.actors.broker.new_leaders import NewLeaders
from kemu.actors.broker.produce_calls import Acks, ProduceCall
from kemu.actors.broker.replica import Ack, Replica
from kemu.actors.broker.replica_manager import ReplicaManager
from kemu.actors.machine import Machine, Received, caller_of
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import ProduceBatch, TopicMetadata
from kemu.protocol.messages.local import GroupConfigs
from kemu.protocol.messages.offsets_log import (
    AppendGroups,
    AppendGroupsReply,
    GroupTopics,
    KnownTopic,
    LeadGroups,
    ResignGroups,
)
from kemu.protocol.names import OFFSETS_TOPIC, coordinator_on, host_of
from kemu.protocol.notes.groups import RecordsAppended

VERSION = 0


class GroupCall(ProduceCall):
    """An append of the group coordinator of this process."""

    __slots__ = ()

    def reply(self, new_leaders: NewLeaders) -> AppendGroupsReply:
        """The result of the append."""
        (row,) = self.rows
        assert row is not None
        return AppendGroupsReply(error=row.error, base_offset=row.base_offset)


class WatchedCall(GroupCall):
    """An append that is valid for the coordinator as soon as it is in the log. The answer reports that the high
    watermark has passed the append.
    """

    __slots__ = ()
    asks_for_min_isr = False


class OffsetsHost:
    """The broker's side of the coordinator's log.

    ``tells_topics``: whether the coordinator needs the cluster's topics.
    ``rack_of``: node id -> rack or "". A broker of Kafka 4 knows the racks of all registered brokers, also of stopped
    brokers.
    """

    def __init__(
        self,
        machine: Machine,
        manager: ReplicaManager,
        led: LedPartitions,
        *,
        tells_topics: bool,
        rack_of: Callable[[int], str],
    ) -> None:
        self._tells_topics = tells_topics
        self._rack_of = rack_of
        self._told: tuple[KnownTopic, ...] | None = None
        """The topics that the coordinator knows."""
        self._machine = machine
        self._manager = manager
        self._led = led
        self._coordinator = coordinator_on(host_of(machine.name))

    def leads(self, replica: Replica) -> None:
        """Make the coordinator load its groups, if this broker newly leads a partition of the offsets topic."""
        if replica.topic == OFFSETS_TOPIC and replica.led_since == replica.leader_epoch:
            records = replica.log.contents()
            message = LeadGroups(partition=replica.number, leader_epoch=replica.leader_epoch, records=records)
            self._machine.request(self._coordinator, message, VERSION)

    def stops_leading(self, replica: Replica, led_epoch: int) -> None:
        """Make the coordinator unload its groups when the broker stops leading the partition in this epoch."""
        if replica.topic == OFFSETS_TOPIC:
            message = ResignGroups(partition=replica.number, leader_epoch=led_epoch)
            self._machine.request(self._coordinator, message, VERSION)

    def knows(self, topics: Mapping[str, TopicMetadata]) -> None:
        """Tell the coordinator about new, changed and deleted topics."""
        if not self._tells_topics:
            return
        rows = tuple(
            KnownTopic(
                name=name,
                topic_id=topic.topic_id,
                partitions=len(topic.partitions),
                racks=self._racks_of(topic),
            )
            for name, topic in sorted(topics.items())
            if name != OFFSETS_TOPIC
        )
        if rows != self._told:
            self._told = rows
            self._machine.request(self._coordinator, GroupTopics(topics=rows), VERSION)

    def _racks_of(self, topic: TopicMetadata) -> tuple[tuple[str, ...], ...]:
        rows = [sorted(filter(None, map(self._rack_of, each.replicas))) for each in topic.partitions]
        return tuple(map(tuple, rows)) if any(rows) else ()

    def configured(self, message: GroupConfigs) -> None:
        """Tell the coordinator the settings of a group."""
        self._machine.request(self._coordinator, message, VERSION)

    def append(self, event: Received) -> None:
        """Append for the coordinator, and answer when all in-sync replicas have the records.

        The broker refuses the append if the leadership has ended or begun anew without the coordinator's knowledge.
        With ``required_acks`` 1, ``min.insync.replicas`` does not apply, and there is no timeout.
        """
        request: AppendGroups = event.message
        replica = self._manager.led.get((OFFSETS_TOPIC, request.partition))
        error = ErrorCode.NONE
        if replica is None or request.leader_epoch < replica.led_since:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif request.required_acks == Acks.ALL and not self._manager.enough_in_sync(replica):
            error = ErrorCode.NOT_ENOUGH_REPLICAS
        if replica is None or error is not ErrorCode.NONE:
            self._machine.reply(event, AppendGroupsReply(error=error, base_offset=-1))
            return
        count = len(request.records)
        written = replica.append(count, self._manager.now_ms, records=request.records)
        self._machine.note(
            RecordsAppended(topic=OFFSETS_TOPIC, partition=replica.number, base_offset=written.base_offset, count=count)
        )
        self._manager.write_batches(replica, (written,))
        self._manager.clean(replica, (written,))
        waits = request.required_acks == Acks.ALL
        call = (GroupCall if waits else WatchedCall)(caller_of(event), 1)
        batch = ProduceBatch(topic=OFFSETS_TOPIC, partition=request.partition, count=count)
        end = written.base_offset + count
        order = self._manager.next_order()
        replica.wait_for_all(Ack(end, order, call, 0, batch, written.base_offset, written.append_time_ms))
        if waits:
            self._led.wait(call, self._manager.replication.offsets_commit_timeout_ms)
        self._led.grown(replica)
