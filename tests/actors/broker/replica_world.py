"""Brokers with replicas on a bench: messages wait in queues until a test delivers them; the test acts as controller.

Every message goes through the codec. The test is also the metadata store: it answers ISR writes when a test asks for
it.
"""

from collections import deque
from typing import Any

import attrs

from kemu.actors.broker.replica import Replica
from kemu.actors.broker.replica_manager import TopicSettings
from kemu.actors.broker.replicated import ReplicatedBroker
from kemu.actors.broker.rules import TODAY, ReplicaRules
from kemu.actors.machine import (
    Append,
    Appended,
    Event,
    Flush,
    LinkDown,
    Loaded,
    Note,
    Received,
    Record,
    Send,
    StartTimer,
    StopTimer,
    TimerFired,
    TimerKey,
    Told,
    WriteOnly,
)
from kemu.emulator.chance import Seeded
from kemu.protocol.commands import Start
from kemu.protocol.config import BrokerConfig, ControllerConfig, ReplicaConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    AlteredIsr,
    AlterIsr,
    AlterIsrReply,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
    UpdateMetadataBroker,
    UpdateMetadataPartition,
)
from kemu.protocol.messages.data import Produce, ProduceBatch
from kemu.protocol.messages.local import BrokerSession
from kemu.protocol.messages.store import (
    OpenSession,
    OpenSessionReply,
    OpResult,
    Ping,
    PingReply,
    StoreCode,
    StoreOpKind,
    StoreOps,
    StoreOpsReply,
    TransactionResult,
)
from kemu.protocol.nodes import read_state
from kemu.protocol.replication import IsrPath
from kemu.protocol.wire.codec import seal, unseal

TOPIC = "t"
AT = (TOPIC, 0)
BROKER_EPOCH = 10
CONTROLLER = "ctl"
CONTROLLER_ID = 9
EACH = BrokerConfig(log_flush_interval_messages=1)
"""Every append is flushed before it counts, so that tests can see the waits for disks."""


class Bench:
    """Brokers b0, b1, ... and one partition; ``version`` of its state node rises with every write."""

    def __init__(
        self,
        count: int = 3,
        *,
        min_in_sync: int = 1,
        rules: ReplicaRules = TODAY,
        isr_path: IsrPath = IsrPath.STORE,
        lag_ms: int = 10_000,
        session_timeout_ms: int = 18_000,
        flushes: BrokerConfig = EACH,
        topic: str = TOPIC,
        group_keys: tuple[str, ...] = (),
    ) -> None:
        self.topic = topic
        self.group_keys = group_keys
        self.flushes = flushes
        self.now_us = 1_000_000
        self.count = count
        self.config = ReplicaConfig(replica_lag_time_max_ms=lag_ms)
        self.settings = {topic: TopicSettings(record_bytes=100, min_in_sync=min_in_sync)}
        self.rules = attrs.evolve(rules, isr_path=isr_path)
        self.asked: deque[tuple[str, Received]] = deque()
        """AlterIsr requests to the controller, whose role the test plays."""
        self.session_timeout_ms = session_timeout_ms
        self.brokers: dict[str, ReplicatedBroker] = {}
        self.disks: dict[str, dict[str, list[Record]]] = {}
        self.timers: dict[tuple[str, TimerKey], int] = {}
        self.mail: dict[tuple[str, str], deque[Event]] = {}
        self.writes: deque[tuple[str, str, tuple[Record, ...], int]] = deque()
        self.written: deque[tuple[str, int]] = deque()
        """The content of the page cache, before the broker is informed."""
        self.flushed: list[tuple[str, str, int]] = []
        """(broker, log, time) of each flush without a waiting request."""
        self.replies: list[tuple[str, Any]] = []
        """The answers to the test's own requests, with their senders."""
        self.notes: list[tuple[str, Any]] = []
        self.isr: tuple[int, ...] = tuple(range(count))
        self.epoch = -1
        self.leader = -1
        self.version = 0
        self.node_data = b""
        """Content of the state node, as a broker wrote it last."""
        self.lives: dict[str, int] = {}
        self.requests = 0
        self.auto_store = True
        """Whether ISR writes are executed when they arrive; otherwise they wait in ``held``."""
        self.held: list[tuple[str, Received]] = []
        self.store_is_silent = False
        """The store answers nothing: requests are in ``unanswered``, with the time."""
        self.unanswered: list[tuple[str, int, Received]] = []
        for number in range(count):
            self.start(f"b{number}")

    # --- hosts -------------------------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        self.lives[name] = self.lives.get(name, 0) + 1
        self.brokers[name] = ReplicatedBroker(
            name,
            int(name[1:]),
            self.flushes,
            self.config,
            topics=self.settings,
            chance=Seeded(1).stream(name),
            rules=self.rules,
            control=ControllerConfig(zookeeper_session_timeout_ms=self.session_timeout_ms),
            group_keys=self.group_keys,
        )
        for log, records in sorted(self.disks.setdefault(name, {}).items()):
            self.step(name, Loaded(log, tuple(records)))
        self.step(name, Told(Start()))
        session = BrokerSession(session_id=self.lives[name], broker_epoch=BROKER_EPOCH + self.lives[name])
        self.ask(name, session, 0, sender=f"{name}/controller")
        self.tell_brokers()

    def crash(self, name: str) -> None:
        """End the process; its writes reach the disk."""
        self.write_all(name)
        del self.brokers[name]
        self.timers = {key: at for key, at in self.timers.items() if key[0] != name}
        self.mail = {pair: queue for pair, queue in self.mail.items() if name not in pair}
        for other in self.brokers:
            self.step(other, LinkDown(name))

    def replica(self, name: str) -> Replica:
        return self.brokers[name].manager.replicas[self.topic, 0]

    def copies(self, name: str) -> bool:
        """Whether some fetch loop of a broker has the partition."""
        return any(AT in loop.followed for loop in self.brokers[name].fetchers._loops.values())

    # --- the controller ----------------------------------------------------------------------------------------

    def tell_brokers(self, *, controller_epoch: int = 1, **partition: Any) -> None:
        """Send UpdateMetadata with the live brokers and the known state of the partition, or this state."""
        live = tuple(UpdateMetadataBroker(id=int(name[1:]), host=name) for name in self.brokers)
        request = UpdateMetadata(
            controller_id=CONTROLLER_ID,
            controller_epoch=controller_epoch,
            partition_states=(self.metadata(**partition),),
            live_brokers=live,
        )
        for name in list(self.brokers):
            self.ask(name, request, 7)

    def metadata(self, **changes: Any) -> UpdateMetadataPartition:
        """The partition's row of UpdateMetadata."""
        given: dict[str, Any] = {
            "topic_name": self.topic,
            "partition_index": 0,
            "controller_epoch": 1,
            "leader": self.leader,
            "leader_epoch": self.epoch,
            "isr": self.isr,
            "zk_version": self.version,
            "replicas": tuple(range(self.count)),
        }
        return UpdateMetadataPartition(**{**given, **changes})

    def elect(self, leader: int, isr: tuple[int, ...], *, to: tuple[int, ...] | None = None) -> None:
        """Elect this leader in a new epoch, and inform all brokers (or ``to``)."""
        self.epoch += 1
        self.version += 1
        self.leader, self.isr = leader, isr
        for number in range(self.count) if to is None else to:
            if f"b{number}" in self.brokers:
                self.tell_state(f"b{number}")

    def state(self, **changes: Any) -> LeaderAndIsrPartition:
        given: dict[str, Any] = {
            "topic_name": self.topic,
            "partition_index": 0,
            "controller_epoch": 1,
            "leader": self.leader,
            "leader_epoch": self.epoch,
            "isr": self.isr,
            "zk_version": self.version,
            "replicas": tuple(range(self.count)),
        }
        return LeaderAndIsrPartition(**{**given, **changes})

    def tell_state(self, name: str, *, controller_epoch: int = 1, broker_epoch: int = -1, **changes: Any) -> Any:
        """Send LeaderAndIsr with the newest state, or with changes; returns the answer."""
        request = LeaderAndIsr(
            controller_id=CONTROLLER_ID,
            controller_epoch=controller_epoch,
            broker_epoch=broker_epoch,
            partition_states=(self.state(**changes),),
            live_leaders=(),
        )
        return self.ask(name, request, 5)

    def stop(self, name: str, leader_epoch: int, *, delete: bool = False, controller_epoch: int = 1) -> Any:
        """Send StopReplica; returns the answer (after a deletion is on the disk)."""
        row = StopReplicaPartition(
            topic_name=self.topic, partition_index=0, leader_epoch=leader_epoch, delete_partition=delete
        )
        request = StopReplica(controller_id=CONTROLLER_ID, controller_epoch=controller_epoch, partition_states=(row,))
        before = len(self.replies)
        self.ask(name, request, 3)
        self.write_all(name)
        return self.replies[before][1]

    def produce(self, name: str, count: int = 1, *, acks: int = -1) -> int:
        """Send a Produce; returns the number of the request (see ``answer_to``)."""
        batch = ProduceBatch(topic=self.topic, partition=0, count=count)
        self.ask(name, Produce(acks=acks, timeout_ms=60_000, batches=(batch,)), 9, sender="p1")
        return self.requests

    # --- steps -------------------------------------------------------------------------------------------------

    def ask(self, name: str, message: object, version: int, *, sender: str = CONTROLLER) -> Any:
        """Send a request of the test over its own connection; returns its answer, if it came at once."""
        self.requests += 1
        before = len(self.replies)
        self.step(name, Received(sender, self.requests, self.requests, version, message))
        return self.replies[before][1] if len(self.replies) > before else None

    def step(self, name: str, event: Event) -> None:
        self._perform(name, event)
        while self.written:
            writer, token = self.written.popleft()
            self._perform(writer, Appended(token, ErrorCode.NONE, 0))

    def _perform(self, name: str, event: Event) -> None:
        for effect in self.brokers[name].step(self.now_us, event):
            match effect:
                case Send(to=to, connection=connection, request_id=number, version=version, message=message):
                    arrived, _ = unseal(seal(message, version))
                    if isinstance(arrived, AlterIsr):
                        assert to == f"b{CONTROLLER_ID}/controller"
                        self.asked.append((name, Received(name, 1, number, version, arrived)))
                    elif to == "zk":
                        self._store(name, Received(name, 1, number, version, arrived))
                    elif to in self.brokers:
                        one = Received(name, 0 if connection else 1, number, version, arrived)
                        self.mail.setdefault((name, to), deque()).append(one)
                    elif connection:
                        self.replies.append((name, arrived))
                    elif "/" not in to:
                        self.mail.setdefault((to, name), deque()).append(LinkDown(to))
                case StartTimer(key=key, after_us=after_us):
                    self.timers[name, key] = self.now_us + after_us
                case StopTimer(key=key):
                    self.timers.pop((name, key), None)
                case Append(log=log, records=records, token=token):
                    self.writes.append((name, log, records, token))
                case WriteOnly(log=log, records=records, token=token):
                    self.disks[name].setdefault(log, []).extend(records)
                    self.written.append((name, token))
                case Flush(log=log):
                    self.flushed.append((name, log, self.now_us))
                case Note(fact=fact):
                    self.notes.append((name, fact))

    def write_all(self, only: str = "") -> None:
        """Complete all writes to disks."""
        waiting, self.writes = self.writes, deque()
        for name, log, records, token in waiting:
            if only and name != only:
                self.writes.append((name, log, records, token))
                continue
            self.disks[name].setdefault(log, []).extend(records)
            self.step(name, Appended(token, ErrorCode.NONE, 0))

    def deliver(self, sender: str, to: str) -> bool:
        """Deliver the oldest message between two brokers; False if there is none."""
        queue = self.mail.get((sender, to))
        if not queue:
            return False
        one = queue.popleft()
        self.step(to, one)
        return True

    def pass_time(self, us: int) -> None:
        """Let time pass; due timers fire in order."""
        until_us = self.now_us + us
        while due := [(at, key) for key, at in self.timers.items() if at <= until_us]:
            at, (name, key) = min(due)
            del self.timers[name, key]
            self.now_us = max(self.now_us, at)
            self.step(name, TimerFired(key))
        self.now_us = until_us

    def settle(self, us: int = 3_000_000) -> None:
        """Deliver everything, and let some time pass."""
        until_us = self.now_us + us
        while self.now_us < until_us:
            for _ in range(50):
                moved = [self.deliver(*pair) for pair in list(self.mail)]
                busy = bool(self.writes)
                self.write_all()
                if not any(moved) and not busy:
                    break
            self.pass_time(100_000)

    # --- the controller's part in ISRs --------------------------------------------------------------------------

    def alter(self, error: ErrorCode = ErrorCode.NONE, *, row_error: ErrorCode = ErrorCode.NONE) -> AlterIsr:
        """Answer the oldest AlterIsr: execute it, or refuse it or its rows; returns the request."""
        name, event = self.asked.popleft()
        request: AlterIsr = event.message
        rows = []
        for row in request.partitions if error is ErrorCode.NONE else ():
            if row_error is ErrorCode.NONE:
                self.version += 1
                self.isr = row.new_isr
            done = {"leader_id": self.leader, "leader_epoch": self.epoch, "isr": self.isr}
            rows.append(
                AlteredIsr(
                    topic_name=row.topic_name,
                    partition_index=row.partition_index,
                    error_code=row_error,
                    current_isr_version=self.version,
                    **done,
                )
            )
        reply = AlterIsrReply(error_code=error, partitions=tuple(rows))
        self.step(name, Received(f"b{CONTROLLER_ID}/controller", 1, event.request_id, event.version, reply))
        return request

    # --- the store ---------------------------------------------------------------------------------------------

    def _store(self, name: str, event: Received) -> None:
        if self.store_is_silent:
            self.unanswered.append((name, self.now_us, event))
            return
        match event.message:
            case OpenSession(session_id=number):
                self._answer(name, event, OpenSessionReply(code=StoreCode.OK, session_id=number, timeout_ms=6_000))
            case Ping():
                self._answer(name, event, PingReply(code=StoreCode.OK))
            case StoreOps():
                if self.auto_store:
                    self.carry_out(name, event)
                else:
                    self.held.append((name, event))

    def carry_out(self, name: str, event: Received, *, answered: bool = True) -> None:
        """Execute an ISR write (or a read) as the store does."""
        results = []
        for (op,) in [transaction.ops for transaction in event.message.transactions]:
            if op.kind is StoreOpKind.CREATE:
                result = OpResult(code=StoreCode.OK)
            elif op.kind is StoreOpKind.GET_DATA:
                result = OpResult(code=StoreCode.OK, data=self.node_data, version=self.version)
            elif op.version != self.version:
                result = OpResult(code=StoreCode.BAD_VERSION)
            else:
                self.version += 1
                self.node_data = op.data
                self.isr = read_state(op.data).isr
                result = OpResult(code=StoreCode.OK, version=self.version)
            results.append(TransactionResult(code=result.code, results=(result,)))
        if answered:
            self._answer(name, event, StoreOpsReply(code=StoreCode.OK, zxid=1, results=tuple(results)))

    def _answer(self, name: str, event: Received, message: object) -> None:
        self.step(name, Received("zk", 1, event.request_id, 0, unseal(seal(message, 0))[0]))
