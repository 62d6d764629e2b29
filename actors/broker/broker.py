"""A broker with replication: leads and follows partitions as the controller says, through leader epochs and ISRs.

The parts: ``replica_control`` (what the controller says), ``fetcher`` (copying what we follow), ``follower_fetches``
(being copied from), ``isr_store`` (ISR changes in the metadata store), ``offsets_host`` (the logs of the group
coordinator of this process), ``leaving`` (controlled shutdown). Consumers' fetches, metadata, injected answers and the
log of a partition are those of ``broker``, the one without replication.

A record counts when the in-sync replicas have it: below the high watermark it may be read, and acks=all is answered.
``log.flush.interval.ms`` 0 means that a replica has a record when it is durable there; otherwise when it is written, as
in Kafka's page cache, and a power cut may take what was acknowledged.

Source: Kafka 2.8 with the ZooKeeper controller.
"""

from kemu.actors.broker.control import ReplicaControl
from kemu.actors.broker.desk import US_PER_MS
from kemu.actors.broker.follower import TIMER as FETCHER
from kemu.actors.broker.follower import Fetchers
from kemu.actors.broker.follower_fetches import TIMER as FOLLOWER_FETCH
from kemu.actors.broker.leading import LeadingBroker
from kemu.actors.broker.leaving import Leaving
from kemu.actors.broker.partition import produced
from kemu.actors.broker.replica import Replica, Role
from kemu.actors.broker.replica_log import JOURNALS, restored
from kemu.actors.broker.view import cached, topics_after
from kemu.actors.client import DEADLINE
from kemu.actors.machine import Appended, Event, LinkDown, Loaded, Received, Record, TimerFired, TimerKey, Told
from kemu.protocol.commands import AnswerNext, Close, Start
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    EpochEnd,
    EpochQuestion,
    LeaderAndIsr,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochReply,
    StopReplica,
    UpdateMetadata,
)
from kemu.protocol.messages.data import BrokerMetadata, Fetch, FetchReply, ListOffsets, Metadata, Produce
from kemu.protocol.messages.group import FindCoordinator
from kemu.protocol.messages.local import BrokerSession, BrokerSessionReply
from kemu.protocol.messages.offsets_log import AppendGroups
from kemu.protocol.names import OFFSETS_TOPIC, ActorName
from kemu.protocol.notes.replication import MetadataCached, ReplicaRestored

_NONE = ErrorCode.NONE
_CHECKPOINT: TimerKey = ("checkpoint",)
_ISR_TICK: TimerKey = ("isr",)
WATERMARKS = "high-watermarks"
"""The disk's name of the checkpoint of high watermarks: (log name, offset) at each change."""


class ReplicatedBroker(LeadingBroker):
    """See the module, and ``ReplicaDesk`` for what one is made of."""

    def _assemble(self) -> None:
        super()._assemble()
        self.fetchers = Fetchers(self)
        self._control = ReplicaControl(self, self.fetchers, self)
        self._leaving = Leaving(self)
        self._journals: dict[str, tuple[Record, ...]] = {}
        self._checkpointed: dict[str, int] = {}
        """Log name -> the high watermark the disk knows."""

    def handle(self, event: Event) -> None:
        """Requests, the disk's answers, and what the controller says."""
        match event:
            case Received(message=Fetch(replica_id=replica_id)):
                self._fetch(event, replica_id)
            case Received(message=FetchReply()):
                self.client.reply_arrived(event)  # as any reply below, and half of all that arrives
            case Received(message=Produce()):
                self._produce(event)
            case Appended(token=token, error=error):
                self._written(token, error)
            case TimerFired(key=key):
                self._timer_fired(key)
            case Received(message=LeaderAndIsr() | StopReplica() | UpdateMetadata()):
                self._control.asked(event)
            case Received(message=OffsetForLeaderEpoch()):
                self._epoch_ends(event)
            case Received(message=AppendGroups()):
                self._append_groups(event)
            case Received(message=BrokerSession() as message):
                self.reply(event, BrokerSessionReply())
                self._isr_store.registered(message)
                if message.session_id:
                    self._control.registered(message.broker_epoch)
            case Received(message=Metadata()):
                self.answers.metadata(event)
            case Received(message=FindCoordinator()):
                self.answers.find_coordinator(event)
            case Received(message=ListOffsets()):
                self.answers.list_offsets(event, self.partitions)
            case Received():
                self.client.reply_arrived(event)
            case LinkDown(peer=peer):
                self._link_down(peer)
            case Told(command=AnswerNext() as command):
                self.injections.told(command)
            case Told(command=Close()):
                self._checkpoint()
                self._leaving.begin()
            case Loaded(log=log, records=records):
                self._journals[log] = records
            case Told(command=Start()):
                self._start()
            case _:
                raise AssertionError(f"{self.name}: {event}")

    def _timer_fired(self, key: TimerKey) -> None:
        match key:
            case ("fetch", number):
                self._fetches.time_is_over(int(number))
            case (name, number) if name == FOLLOWER_FETCH:
                self._follower_fetches.time_is_over(int(number))
            case (name, leader) if name == FETCHER:
                self.fetchers.due(int(leader))
            case ("produce", number):
                self._time_out(self._calls.pop(int(number)))
            case ("isr",):
                self._shrink_isrs()
            case ("checkpoint",):
                self._checkpoint()
                self.start_timer(
                    _CHECKPOINT, self.replication.replica_high_watermark_checkpoint_interval_ms * US_PER_MS
                )
            case ("store",):
                self._isr_store.retry_due()
            case ("isr-notify",):
                self._isr_store.notify_due()
            case ("leaving",):
                self._leaving.try_again()
            case _:
                assert key == DEADLINE, f"{self.name}: no timer {key}"
                self.client.deadline_passed()

    # --- start and connections ---------------------------------------------------------------------------------

    def _start(self) -> None:
        watermarks = dict(self._journals.pop(WATERMARKS, ()))
        for journal, records in sorted(self._journals.items()):
            log = restored(records) if journal.startswith(JOURNALS) else None
            if log is None:
                continue
            name = journal.removeprefix(JOURNALS)
            topic, _, number = name.rpartition("-")
            checkpoint = watermarks.get(name.encode())
            log.high_watermark = min(log.end_offset, int(checkpoint) if checkpoint else log.start_offset)
            self._checkpointed[name] = log.high_watermark
            self._control.adopt((topic, int(number)), log)
            self.note(
                ReplicaRestored(
                    topic=topic,
                    partition=int(number),
                    end_offset=log.end_offset,
                    high_watermark=log.high_watermark,
                    epochs=log.epochs.entries,
                )
            )
        self._journals.clear()
        self.start_timer(_CHECKPOINT, self.replication.replica_high_watermark_checkpoint_interval_ms * US_PER_MS)
        self.start_timer(_ISR_TICK, self.lag_us // 2)

    def _link_down(self, peer: ActorName) -> None:
        if self.client.awaits(peer) or peer == self.store:
            self.client.connection_broke(peer, "connection broke")
        node = next((node for node, host in self.live_brokers.items() if host == peer), -1)
        for replica in self.partitions.values():
            follower = replica.followers.get(node)
            if follower is not None:
                follower.told_watermark = -1  # the answer may have been lost

    def link_lost(self, peer: ActorName, why: str) -> None:
        """Called before the requests to ``peer`` fail."""
        if peer == self.store:
            self._isr_store.link_down()

    # --- leading -----------------------------------------------------------------------------------------------

    def leads(self, replica: Replica) -> None:
        """We lead this partition from now on, or go on under a new epoch."""
        self._offsets.leads(replica)

    def leads_no_more(self, replica: Replica, error: ErrorCode) -> None:
        """Whoever waits at this partition is told so."""
        fetches = self._fetches.unpark_all(replica)
        follower_fetches = self._follower_fetches.unpark_all(replica)
        del self.partitions[replica.at]
        for ack in replica.acks_given_up():
            self._decide(ack.call, ack.row, produced(ack.batch, error))
        for fetch in fetches:
            self._fetches.answer_now(fetch)
        for follower_fetch in follower_fetches:
            self._follower_fetches.answer_now(follower_fetch)
        self._offsets.leads_no_more(replica)

    def follows(self, replica: Replica) -> None:
        """We follow from now on."""

    def gone(self, replica: Replica) -> None:
        """The replica was stopped: if its log is deleted, so is its checkpoint."""
        if replica.at not in self.replicas and self._checkpointed.pop(replica.log_name, None) is not None:
            self.write_elsewhere(WATERMARKS, ((replica.log_name.encode(), b"0"),))

    def cluster_changed(self, request: UpdateMetadata) -> None:
        """What clients are told of the cluster."""
        answers = self.answers
        answers.controller_id = request.controller_id
        answers.brokers = tuple(
            BrokerMetadata(node_id=broker.id, host=broker.host, rack=broker.rack) for broker in request.live_brokers
        )
        answers.topics = topics_after(answers.topics, request)
        topics, gone = cached(answers.topics, request)
        self.note(MetadataCached(live_brokers=tuple(self.live_brokers), topics=topics, gone=gone))
        offsets = answers.topics.get(OFFSETS_TOPIC)
        answers.offsets_leaders = (
            tuple(row.leader if row.error is _NONE else -1 for row in offsets.partitions) if offsets is not None else ()
        )

    def _shrink_isrs(self) -> None:
        for replica in self.partitions.values():
            isr = replica.shrunk(self.now_us, self.lag_us, self.rules)
            if isr is not None:
                self._isr_store.propose(replica, isr, "shrink")
            self.advance(replica)
        self.start_timer(_ISR_TICK, self.lag_us // 2)

    # --- the disk ----------------------------------------------------------------------------------------------

    def _written(self, token: int, error: ErrorCode) -> None:
        replica = self.writes.pop(token, None)
        if replica is None:
            return  # a checkpoint
        if error is not _NONE:
            replica.writes.pop(token)
            if self.replicas.get(replica.at) is replica and replica.role is not Role.OFFLINE:
                self._control.fail(replica)
            return
        replica.written(token)
        self._control.deleted(token)
        if self.replicas.get(replica.at) is not replica:
            return
        if replica.role is Role.LEADER:
            for ack in replica.acks_durable():
                self._acknowledge(ack, _NONE)
            self.advance(replica)
        elif self.flushes_each and not replica.writes:
            self.fetchers.durable(replica)

    def _checkpoint(self) -> None:
        """Write down the high watermarks that changed."""
        rows: list[Record] = []
        for replica in self.replicas.values():
            offset = replica.log.high_watermark
            if self._checkpointed.get(replica.log_name) != offset:
                self._checkpointed[replica.log_name] = offset
                rows.append((replica.log_name.encode(), str(offset).encode()))
        if rows:
            self.write_elsewhere(WATERMARKS, tuple(rows))

    # --- fetches and epochs ------------------------------------------------------------------------------------

    def _fetch(self, event: Received, replica_id: int) -> None:
        error = self.injections.take("Fetch", event.peer)
        if error is not None:
            self._fetches.refuse(event, error)
        elif replica_id >= 0:
            self._follower_fetches.asked(event)
        else:
            self._fetches.asked(event)

    def _epoch_ends(self, event: Received) -> None:
        request: OffsetForLeaderEpoch = event.message
        answers = tuple(self._epoch_end(question) for question in request.questions)
        self.reply(event, OffsetForLeaderEpochReply(answers=answers))

    def _epoch_end(self, question: EpochQuestion) -> EpochEnd:
        replica = self.partitions.get((question.topic, question.partition))
        error = self.absent(question.topic, question.partition) if replica is None else _NONE
        if replica is not None and self.rules.fences_fetches:
            error = replica.epoch_error(question.current_leader_epoch)
        if replica is None or error is not _NONE:
            return EpochEnd(topic=question.topic, partition=question.partition, error_code=error)
        found = replica.log.epochs.end_offset_for(question.leader_epoch, replica.log.end_offset)
        return EpochEnd(
            topic=question.topic,
            partition=question.partition,
            error_code=_NONE,
            leader_epoch=found.epoch,
            end_offset=found.end_offset,
        )
