"""The replicated ``__consumer_offsets`` on a broker: its logs are ours, what is in them is the coordinator's.

A part of the replicated broker. The group coordinator is another actor of the same process (``b0/coordinator``). It is
told when this broker begins to lead a partition of the offsets topic, with the whole log, and when it ends. What it
wants written comes here as ``AppendGroups``: an append with acks=all, so that a coordinator elected from the in-sync
replicas knows whatever was told to a member.

Source: Kafka 2.8's ``GroupMetadataManager.storeGroup``/``storeOffsets`` (acks=-1, ``offsets.commit.timeout.ms``),
``GroupCoordinator.onElection``/``onResignation``.
"""

from kemu.actors.broker.desk import GroupCall, ReplicaDesk
from kemu.actors.broker.replica import Ack, Replica
from kemu.actors.machine import Received, caller_of
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import ProduceBatch
from kemu.protocol.messages.offsets_log import AppendGroups, AppendGroupsReply, LeadGroups, ResignGroups
from kemu.protocol.names import OFFSETS_TOPIC, coordinator_on, host_of
from kemu.protocol.notes.groups import RecordsAppended

VERSION = 0


class OffsetsHost:
    """See the module."""

    def __init__(self, desk: ReplicaDesk) -> None:
        self._desk = desk
        self._coordinator = coordinator_on(host_of(desk.name))

    def leads(self, replica: Replica) -> None:
        """We lead this partition: if it is one of ours and that is new, the coordinator takes its groups up."""
        if replica.topic == OFFSETS_TOPIC and replica.led_since == replica.leader_epoch:
            records = replica.log.contents()
            message = LeadGroups(partition=replica.number, leader_epoch=replica.leader_epoch, records=records)
            self._desk.request(self._coordinator, message, VERSION)

    def leads_no_more(self, replica: Replica) -> None:
        """We do not: the coordinator gives its groups up."""
        if replica.topic == OFFSETS_TOPIC:
            message = ResignGroups(partition=replica.number, leader_epoch=replica.leader_epoch)
            self._desk.request(self._coordinator, message, VERSION)

    def append(self, event: Received) -> tuple[Replica, GroupCall] | None:
        """Append for the coordinator; the call that is answered once all in-sync replicas have it.

        None when it was refused. A coordinator that has not heard yet that we lead no more, or lead again, is refused.
        """
        request: AppendGroups = event.message
        replica = self._desk.partitions.get((OFFSETS_TOPIC, request.partition))
        error = ErrorCode.NONE
        if replica is None or request.leader_epoch < replica.led_since:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif not replica.enough_in_sync():
            error = ErrorCode.NOT_ENOUGH_REPLICAS
        if replica is None or error is not ErrorCode.NONE:
            self._desk.reply(event, AppendGroupsReply(error=error, base_offset=-1))
            return None
        count = len(request.records)
        written = replica.append(count, self._desk.now_ms, records=request.records)
        self._desk.note(
            RecordsAppended(topic=OFFSETS_TOPIC, partition=replica.number, base_offset=written.base_offset, count=count)
        )
        self._desk.write_batches(replica, (written,))
        call = GroupCall(caller_of(event), 1)
        batch = ProduceBatch(topic=OFFSETS_TOPIC, partition=request.partition, count=count)
        end = written.base_offset + count
        order = self._desk.next_order()
        replica.wait_for_all(Ack(end, order, call, 0, batch, written.base_offset, written.append_time_ms))
        return replica, call
