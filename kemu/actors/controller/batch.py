"""The requests of one state change, collected per broker and then queued together.

A batch begins empty. If a failed state change left requests in the batch, the next state change raises
``BatchNotEmpty``. A later entry of a partition replaces an earlier entry, but the marks "is new" and "delete" remain.
Each broker gets LeaderAndIsr, then UpdateMetadata, then StopReplica. Only live brokers get requests; a broker in
controlled shutdown is live. Requests contain the broker epoch that the controller knows.

Source: Kafka 2.8 ``ControllerBrokerRequestBatch``.
"""

from collections.abc import Callable, Iterable

from kemu.actors.controller.context import ControllerContext, Leadership
from kemu.actors.controller.rules import ControllerRules
from kemu.protocol.messages.control import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    NO_EPOCH,
    NO_TOPIC_ID,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LiveLeader,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
    UpdateMetadataBroker,
    UpdateMetadataPartition,
)
from kemu.protocol.names import TopicPartition

PER_PARTITION_DELETE_SINCE = 3

Send = Callable[[int, object, int], None]
"""(broker, request, version): the call that queues the request for the broker."""


class BatchNotEmpty(Exception):
    """The error for a state change that began while requests of another state change were still in the batch."""


class BatchUnderWay(Exception):
    """The error for metadata that was sent while another batch was open; the controller resigns."""


class ControlBatch:
    """The requests of one state change; callers collect them between ``begin`` and ``send``."""

    def __init__(self, controller_id: int, context: ControllerContext, rules: ControllerRules, send: Send) -> None:
        self._controller_id = controller_id
        self._context = context
        self._rules = rules
        self._send = send
        self._leader_and_isr: dict[int, dict[TopicPartition, LeaderAndIsrPartition]] = {}
        self._stop_replica: dict[int, dict[TopicPartition, StopReplicaPartition]] = {}
        self._metadata_brokers: dict[int, None] = {}
        self._metadata_partitions: dict[TopicPartition, UpdateMetadataPartition] = {}

    def begin(self) -> None:
        """Start a batch.

        Raises:
            BatchNotEmpty: the last batch was not sent.
        """
        if self._leader_and_isr or self._stop_replica or self._metadata_brokers:
            raise BatchNotEmpty

    def clear(self) -> None:
        """Discard the collected requests."""
        self._leader_and_isr = {}
        self._stop_replica = {}
        self._metadata_brokers = {}
        self._metadata_partitions = {}

    # --- collecting ----------------------------------------------------------------------------------------------

    def add_leader_and_isr(
        self, brokers: Iterable[int], at: TopicPartition, known: Leadership, *, is_new: bool
    ) -> None:
        """Queue the leadership of a partition for these brokers, and its metadata for every live broker."""
        assignment, state = self._context.assignment(at), known.state
        assert assignment is not None, f"{at} is led but has no assignment"
        rows: dict[bool, LeaderAndIsrPartition] = {}
        for broker in brokers:
            if broker < 0:
                continue
            mine = self._leader_and_isr.setdefault(broker, {})
            new = is_new or (at in mine and mine[at].is_new)
            if new not in rows:
                rows[new] = LeaderAndIsrPartition(
                    topic_name=at[0],
                    partition_index=at[1],
                    controller_epoch=state.controller_epoch,
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=state.isr,
                    zk_version=known.zk_version,
                    replicas=assignment.replicas,
                    adding_replicas=assignment.adding,
                    removing_replicas=assignment.removing,
                    is_new=new,
                    topic_id=self._context.topic_ids.get(at[0], NO_TOPIC_ID),
                )
            mine[at] = rows[new]
        self.add_update_metadata(self._context.live, (at,))

    def add_stop_replica(self, brokers: Iterable[int], at: TopicPartition, *, delete: bool) -> None:
        """Queue a request to stop their replica of the partition for these brokers."""
        known = self._context.leadership.get(at)
        if self._context.is_queued_for_deletion(at[0]):
            epoch = EPOCH_DURING_DELETE
        else:
            epoch = known.state.leader_epoch if known is not None else NO_EPOCH
        for broker in brokers:
            if broker < 0:
                continue
            mine = self._stop_replica.setdefault(broker, {})
            sticky = delete or (at in mine and mine[at].delete_partition)
            mine[at] = StopReplicaPartition(
                topic_name=at[0], partition_index=at[1], leader_epoch=epoch, delete_partition=sticky
            )

    def add_update_metadata(self, brokers: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
        """Queue metadata for these brokers: the live brokers, and the partitions that have a leadership."""
        self._metadata_brokers.update(dict.fromkeys(broker for broker in brokers if broker >= 0))
        for at in partitions:
            known = self._context.leadership.get(at)
            if known is not None:
                self._metadata_partitions[at] = self._metadata(at, known)

    def _metadata(self, at: TopicPartition, known: Leadership) -> UpdateMetadataPartition:
        state, context = known.state, self._context
        replicas = context.replicas(at)
        return UpdateMetadataPartition(
            topic_name=at[0],
            partition_index=at[1],
            controller_epoch=state.controller_epoch,
            leader=LEADER_DURING_DELETE if context.is_queued_for_deletion(at[0]) else state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            zk_version=known.zk_version,
            replicas=replicas,
            offline_replicas=tuple(
                broker for broker in replicas if not context.is_replica_online(broker, at, or_shutting_down=True)
            ),
            topic_id=context.topic_ids.get(at[0], NO_TOPIC_ID),
        )

    def send_metadata(self, brokers: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
        """Queue metadata about live brokers and these partitions, in a batch with no other requests.

        Raises:
            BatchUnderWay: the batch was not empty; this call has emptied the batch.
        """
        try:
            self.begin()
        except BatchNotEmpty:
            self.clear()
            raise BatchUnderWay("metadata in the middle of another batch") from None
        self.add_update_metadata(brokers, partitions)
        self.send()

    # --- sending -----------------------------------------------------------------------------------------------

    def send(self) -> None:
        """Queue all requests and empty the batch."""
        epoch = self._context.epoch
        for broker, rows in self._leader_and_isr.items():
            if broker in self._context.live:
                self._send_leader_and_isr(broker, epoch, tuple(rows.values()))
        self._send_update_metadata(epoch)
        for broker, stops in self._stop_replica.items():
            if broker in self._context.live:
                self._send_stop_replica(broker, epoch, tuple(stops.values()))
        self.clear()

    def _send_leader_and_isr(self, broker: int, epoch: int, rows: tuple[LeaderAndIsrPartition, ...]) -> None:
        live = self._context.live
        leaders = sorted({row.leader for row in rows if row.leader in live})
        request = LeaderAndIsr(
            controller_id=self._controller_id,
            controller_epoch=epoch,
            broker_epoch=live[broker].epoch,
            partition_states=rows,
            live_leaders=tuple(LiveLeader(broker_id=leader, host_name=live[leader].host) for leader in leaders),
        )
        self._send(broker, request, self._rules.leader_and_isr_version)

    def _send_update_metadata(self, epoch: int) -> None:
        live = self._context.live
        rows = tuple(self._metadata_partitions.values())
        brokers = tuple(
            UpdateMetadataBroker(id=number, host=each.host, rack=each.rack) for number, each in live.items()
        )
        for broker in self._metadata_brokers:
            if broker in live:
                request = UpdateMetadata(
                    controller_id=self._controller_id,
                    controller_epoch=epoch,
                    broker_epoch=live[broker].epoch,
                    partition_states=rows,
                    live_brokers=brokers,
                )
                self._send(broker, request, self._rules.update_metadata_version)

    def _send_stop_replica(self, broker: int, epoch: int, rows: tuple[StopReplicaPartition, ...]) -> None:
        version = self._rules.stop_replica_version
        parts = [(False, rows)]
        if version < PER_PARTITION_DELETE_SINCE:
            split = [(wanted, tuple(row for row in rows if row.delete_partition is wanted)) for wanted in (True, False)]
            parts = [part for part in split if part[1]]
        for delete, some in parts:
            request = StopReplica(
                controller_id=self._controller_id,
                controller_epoch=epoch,
                broker_epoch=self._context.live[broker].epoch,
                delete_partitions=delete,
                partition_states=some,
            )
            self._send(broker, request, version)
