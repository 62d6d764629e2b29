"""How a leader changes the ISR in the metadata store (a part of the replicated broker).

A change is a compare-and-set on the partition's state node, with the version the leader knows. It leaves leader, leader
epoch and the deciding controller's epoch as they are. Until the store has answered, both outcomes are possible
(``InSync.maximal``); a lost answer is found out by writing again: what was done already is refused for its version, and
then the node is read and compared (KAFKA-1382).

The session is the one the broker's controller part opened; changes wait while there is none.

Source: Kafka 2.8's ``Partition.updateIsr``, ``ReplicationUtils``, ``ZkIsrManager`` (the notifications).
"""

from typing import NamedTuple

from kemu.actors.broker.high_watermarks import HighWatermarks
from kemu.actors.broker.replica import Replica, Role
from kemu.actors.broker.replica_manager import US_PER_MS, ReplicaManager
from kemu.actors.broker.timers import BrokerTimer
from kemu.actors.client import Client
from kemu.actors.machine import Machine
from kemu.protocol.messages.local import BrokerSession
from kemu.protocol.messages.store import (
    NO_SESSION,
    CreateMode,
    OpenSession,
    OpenSessionReply,
    StoreCode,
    StoreOp,
    StoreOpKind,
    StoreOps,
    StoreOpsReply,
    Transaction,
    TransactionResult,
)
from kemu.protocol.names import ActorName, TopicPartition
from kemu.protocol.nodes import ISR_CHANGE_PREFIX, PartitionState, partitions_data, state_data, state_path
from kemu.protocol.notes.replication import IsrChanged, IsrChangeFailed, IsrProposed

READ_TIMEOUT_US = 12_000_000
"""How long we wait for the store: ZooKeeper's clients do so for two thirds of the session's timeout (18 s)."""
_VERSION = 0


class IsrChange(NamedTuple):
    """A change that was decided under this leader epoch."""

    replica: Replica
    leader_epoch: int
    zk_version: int
    isr: tuple[int, ...]
    data: bytes
    why: str
    reading: bool = False
    """The write was refused; what is there is being read."""

    @property
    def still_counts(self) -> bool:
        """Whether the leadership it was decided under still lasts."""
        return self.replica.role is Role.LEADER and self.replica.leader_epoch == self.leader_epoch


class IsrStore:
    """See the module."""

    def __init__(
        self,
        machine: Machine,
        client: Client,
        manager: ReplicaManager,
        watermarks: HighWatermarks,
        store: ActorName,
    ) -> None:
        self._machine = machine
        self._client = client
        self._manager = manager
        self._watermarks = watermarks
        self._store = store
        self._session_id = NO_SESSION
        self._attached = False
        self._attaching = False
        self._queue: list[IsrChange] = []
        self._changed: dict[TopicPartition, None] = {}
        """Partitions whose new ISR was not announced to the controller yet."""
        self._last_change_us = 0
        self._last_announced_us = 0
        self._announcing = False

    # --- the session -------------------------------------------------------------------------------------------

    def registered(self, session: BrokerSession) -> None:
        """Our controller part has a session (0: it has expired)."""
        self._session_id = session.session_id
        self._attached = False
        self._attach()

    def link_down(self) -> None:
        """The connection to the store broke; what was in flight on it was put back."""
        self._attached = False
        self._attach_later()

    def retry_due(self) -> None:
        """STORE fired."""
        self._attach()

    def _attach(self) -> None:
        if self._session_id == NO_SESSION or self._attached or self._attaching:
            return
        if self._client.available_at(self._store) > self._machine.now_us:
            self._attach_later()
            return
        self._attaching = True
        question = OpenSession(session_id=self._session_id, timeout_ms=0)
        self._client.call(
            self._store, question, _VERSION, self._opened, self._not_opened, self._session_id, READ_TIMEOUT_US
        )

    def _attach_later(self) -> None:
        if self._session_id != NO_SESSION:
            wait_us = self._client.available_at(self._store) - self._machine.now_us
            self._machine.start_timer((BrokerTimer.STORE,), max(wait_us, US_PER_MS))

    def _opened(self, reply: OpenSessionReply, session_id: int) -> None:
        self._attaching = False
        if session_id != self._session_id:
            self._attach()
        elif reply.code is StoreCode.OK:
            self._attached = True
            self._flush()
        else:
            self._session_id = NO_SESSION  # Our controller part will learn it too, and register again.

    def _not_opened(self, why: str, session_id: int) -> None:
        self._attaching = False
        self._attach_later()

    # --- who fell behind ---------------------------------------------------------------------------------------

    def look_later(self) -> None:
        """Look who fell behind when half of the lag that is allowed is over."""
        self._machine.start_timer((BrokerTimer.ISR,), self._manager.lag_us // 2)

    def look(self) -> None:
        """ISR fired."""
        manager = self._manager
        for replica in manager.led.values():
            isr = replica.shrunk(self._machine.now_us, manager.lag_us, manager.rules)
            if isr is not None:
                self.propose(replica, isr, "shrink")
            self._watermarks.advance(replica)
        self.look_later()

    # --- changes -----------------------------------------------------------------------------------------------

    def propose(self, replica: Replica, isr: tuple[int, ...], why: str) -> None:
        """Try to make this the ISR."""
        assert replica.role is Role.LEADER and replica.in_sync.proposed is None and isr
        replica.in_sync.proposed = isr
        self._machine.note(
            IsrProposed(
                topic=replica.topic,
                partition=replica.number,
                leader_epoch=replica.leader_epoch,
                isr=isr,
                counted=replica.in_sync.maximal if self._manager.rules.maximal_isr else replica.in_sync.members,
            )
        )
        state = PartitionState(self._manager.node_id, replica.leader_epoch, isr, replica.controller_epoch)
        version = replica.in_sync.zk_version
        self._queue.append(IsrChange(replica, replica.leader_epoch, version, isr, state_data(state), why))
        self._flush()

    def _flush(self) -> None:
        self._queue = [change for change in self._queue if change.still_counts]
        if not self._attached or not self._queue:
            return
        sent, self._queue = tuple(self._queue), []
        ops = StoreOps(session_id=self._session_id, transactions=tuple(_transaction(change) for change in sent))
        self._client.call(self._store, ops, _VERSION, self._answered, self._unanswered, sent, READ_TIMEOUT_US)

    def _answered(self, reply: StoreOpsReply, sent: tuple[IsrChange, ...]) -> None:
        if reply.code is not StoreCode.OK:
            self._attached = False
            self._session_id = NO_SESSION
            self._queue[:0] = sent
            return
        for change, result in zip(sent, reply.results, strict=True):
            if change.still_counts:
                self._decided(change, result)
        self._flush()

    def _unanswered(self, why: str, sent: tuple[IsrChange, ...]) -> None:
        self._queue[:0] = sent

    def _decided(self, change: IsrChange, result: TransactionResult) -> None:
        if result.code is StoreCode.OK and (not change.reading or result.results[0].data == change.data):
            self._took(change, result.results[0].version)
        elif result.code is StoreCode.BAD_VERSION and not change.reading and self._manager.rules.reads_back:
            self._queue.append(change._replace(reading=True))
        else:
            self._refused(change, result.code)

    def _took(self, change: IsrChange, version: int) -> None:
        replica = change.replica
        replica.in_sync.settle(change.isr, version)
        self._machine.note(
            IsrChanged(
                topic=replica.topic,
                partition=replica.number,
                leader=self._manager.node_id,
                leader_epoch=replica.leader_epoch,
                isr=change.isr,
                zk_version=version,
                why=change.why,
            )
        )
        if self._manager.rules.announces_isr_changes:
            self._announce_later(replica.at)
        self._watermarks.advance(replica)

    def _refused(self, change: IsrChange, code: StoreCode) -> None:
        """Another wrote: its LeaderAndIsr is on its way to us. Our ISR stays as it was."""
        replica = change.replica
        replica.in_sync.proposed = None
        why = "somebody else wrote" if change.reading else code.name
        self._machine.note(
            IsrChangeFailed(
                topic=replica.topic,
                partition=replica.number,
                leader_epoch=replica.leader_epoch,
                isr=change.isr,
                why=why,
            )
        )

    # --- announcements -----------------------------------------------------------------------------------------

    def _announce_later(self, at: TopicPartition) -> None:
        if not self._changed and not self._announcing:
            self._look_again_later()
        self._changed[at] = None
        self._last_change_us = self._machine.now_us

    def notify_due(self) -> None:
        """ISR_NOTIFY fired: tell the controller (by a sequential node) once changes have calmed down, or it is late."""
        if not self._changed:
            return
        config, now_us = self._manager.replication, self._machine.now_us
        calm = now_us - self._last_change_us >= config.emulated_isr_notification_delay_ms * US_PER_MS
        late = now_us - self._last_announced_us >= config.emulated_isr_notification_most_ms * US_PER_MS
        if self._attached and not self._announcing and (calm or late):
            self._announcing = True
            changed, self._changed = tuple(self._changed), {}
            op = StoreOp(
                kind=StoreOpKind.CREATE,
                path=ISR_CHANGE_PREFIX,
                data=partitions_data(changed),
                mode=CreateMode.PERSISTENT_SEQUENTIAL,
            )
            ops = StoreOps(session_id=self._session_id, transactions=(Transaction(ops=(op,)),))
            self._client.call(
                self._store, ops, _VERSION, self._announced, self._not_announced, changed, READ_TIMEOUT_US
            )
        self._look_again_later()

    def _look_again_later(self) -> None:
        tick_ms = self._manager.replication.emulated_isr_notification_tick_ms
        self._machine.start_timer((BrokerTimer.ISR_NOTIFY,), tick_ms * US_PER_MS)

    def _announced(self, reply: StoreOpsReply, changed: tuple[TopicPartition, ...]) -> None:
        self._announcing = False
        if reply.code is StoreCode.OK and reply.results[0].code is StoreCode.OK:
            self._last_announced_us = self._machine.now_us
        else:
            self._not_announced(reply.code.name, changed)

    def _not_announced(self, why: str, changed: tuple[TopicPartition, ...]) -> None:
        self._announcing = False
        self._changed.update(dict.fromkeys(changed))
        self._look_again_later()


def _transaction(change: IsrChange) -> Transaction:
    path = state_path(*change.replica.at)
    if change.reading:
        return Transaction(ops=(StoreOp(kind=StoreOpKind.GET_DATA, path=path),))
    op = StoreOp(kind=StoreOpKind.SET_DATA, path=path, data=change.data, version=change.zk_version)
    return Transaction(ops=(op,))
