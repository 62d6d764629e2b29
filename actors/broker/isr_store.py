"""How a leader changes the ISR in the metadata store (a part of the replicated broker).

A change is a compare-and-set on the partition's state node, with the version the leader knows. It leaves leader, leader
epoch and the deciding controller's epoch as they are. Until the store has answered, both outcomes are possible
(``InSync.maximal``); a lost answer is found out by writing again: what was done already is refused for its version, and
then the node is read and compared (KAFKA-1382).

The session is the one the broker's controller part opened, and this part attaches to it. Changes wait while there is
none; those that were under way when a session expired are tried again under the next, if their leadership still lasts.

Source: Kafka 2.8's ``Partition.updateIsr``, ``ReplicationUtils``, ``ZkIsrManager`` (the notifications).
"""

from functools import partial
from typing import NamedTuple

from kemu.actors.broker.high_watermarks import HighWatermarks
from kemu.actors.broker.replica import Replica, Role
from kemu.actors.broker.replica_manager import US_PER_MS, ReplicaManager
from kemu.actors.broker.timers import BrokerTimer
from kemu.actors.machine import Draws, Machine
from kemu.actors.store.session import StoreSession
from kemu.protocol.draws import CALM, DrawName
from kemu.protocol.messages.local import BrokerSession
from kemu.protocol.messages.store import (
    NO_SESSION,
    CreateMode,
    StoreCode,
    StoreOp,
    StoreOpKind,
    Transaction,
    TransactionResult,
    WatchEvent,
)
from kemu.protocol.names import ActorName, TopicPartition
from kemu.protocol.nodes import ISR_CHANGE_PREFIX, PartitionState, partitions_data, state_data, state_path
from kemu.protocol.notes.replication import IsrChanged, IsrChangeFailed, IsrProposed


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
    """See the module.

    Args:
        store: the store's actor.
        session_timeout_ms: of the process's session.
        max_in_flight: how many transactions may be on their way.
    """

    def __init__(
        self,
        machine: Machine,
        manager: ReplicaManager,
        watermarks: HighWatermarks,
        *,
        store: ActorName,
        session_timeout_ms: int,
        max_in_flight: int,
        draws: Draws = CALM,
    ) -> None:
        self._draws = draws
        self._machine = machine
        self._manager = manager
        self._watermarks = watermarks
        self.session = StoreSession(
            machine, self, store=store, timeout_ms=session_timeout_ms, max_in_flight=max_in_flight, draws=draws
        )
        self._attached_to = NO_SESSION
        """The session under which changes are submitted; none while we are not attached."""
        self._undecided: list[IsrChange] = []
        """In the order they were proposed; each is submitted once per session."""
        self._changed: dict[TopicPartition, None] = {}
        """Partitions whose new ISR was not announced to the controller yet."""
        self._announcing: tuple[TopicPartition, ...] = ()
        """Those whose announcement is on its way."""
        self._last_change_us = 0
        self._last_announced_us = 0

    # --- the session -------------------------------------------------------------------------------------------

    def registered(self, session: BrokerSession) -> None:
        """Our controller part has a session (0: it has expired, and a new one will follow)."""
        if session.session_id not in (NO_SESSION, self._attached_to):
            self._attached_to = NO_SESSION
            self.session.attach(session.session_id)

    def session_opened(self, session_id: int) -> None:
        """We are attached: all that is undecided is submitted (again)."""
        self._attached_to = session_id
        if self._announcing:
            self._not_announced()
        self._undecided = [change for change in self._undecided if change.still_counts]
        for change in self._undecided:
            self._submit(change)

    def session_expired(self) -> None:
        """Our controller part will learn it too, and register again."""
        self._attached_to = NO_SESSION

    def session_closed(self, code: StoreCode) -> None:
        """Never: it is our controller part that closes it."""
        raise AssertionError(f"{self._machine.name} does not close the session ({code})")

    def watch_fired(self, event: WatchEvent) -> None:
        """Never: a broker sets no watches."""
        raise AssertionError(f"{self._machine.name} set no watch: {event}")

    # --- who fell behind ---------------------------------------------------------------------------------------

    def look_later(self) -> None:
        """Look who fell behind when half of the lag that is allowed is over."""
        self._machine.start_timer((BrokerTimer.ISR,), self._manager.lag_us // 2)

    def hours_pass(self) -> None:
        """The session's pings and the looks are at any moment of their intervals."""
        self.session.hours_pass()
        every_us = self._manager.lag_us // 2
        self._machine.start_timer((BrokerTimer.ISR,), self._draws.us(DrawName.ISR_CHECK_PHASE, every_us, every_us))

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
        self._try(IsrChange(replica, replica.leader_epoch, version, isr, state_data(state), why))

    def _try(self, change: IsrChange) -> None:
        self._undecided.append(change)
        if self._attached_to != NO_SESSION:
            self._submit(change)

    def _submit(self, change: IsrChange) -> None:
        self.session.submit((_transaction(change),), partial(self._answered, change))

    def _answered(self, change: IsrChange, results: tuple[TransactionResult, ...]) -> None:
        self._undecided.remove(change)
        if change.still_counts:
            self._decided(change, results[0])

    def _decided(self, change: IsrChange, result: TransactionResult) -> None:
        if result.code is StoreCode.OK and (not change.reading or result.results[0].data == change.data):
            self._took(change, result.results[0].version)
        elif result.code is StoreCode.BAD_VERSION and not change.reading and self._manager.rules.reads_back:
            self._try(change._replace(reading=True))
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
        if self._attached_to != NO_SESSION and not self._announcing and (calm or late):
            self._announcing, self._changed = tuple(self._changed), {}
            op = StoreOp(
                kind=StoreOpKind.CREATE,
                path=ISR_CHANGE_PREFIX,
                data=partitions_data(self._announcing),
                mode=CreateMode.PERSISTENT_SEQUENTIAL,
            )
            self.session.submit((Transaction(ops=(op,)),), self._announced)
        self._look_again_later()

    def _look_again_later(self) -> None:
        tick_ms = self._manager.replication.emulated_isr_notification_tick_ms
        self._machine.start_timer((BrokerTimer.ISR_NOTIFY,), tick_ms * US_PER_MS)

    def _announced(self, results: tuple[TransactionResult, ...]) -> None:
        """The store took the announcement; one that it refused is made again."""
        if results[0].code is StoreCode.OK:
            self._announcing = ()
            self._last_announced_us = self._machine.now_us
        else:
            self._not_announced()

    def _not_announced(self) -> None:
        self._changed = dict.fromkeys((*self._announcing, *self._changed))
        self._announcing = ()
        self._look_again_later()


def _transaction(change: IsrChange) -> Transaction:
    path = state_path(*change.replica.at)
    if change.reading:
        return Transaction(ops=(StoreOp(kind=StoreOpKind.GET_DATA, path=path),))
    op = StoreOp(kind=StoreOpKind.SET_DATA, path=path, data=change.data, version=change.zk_version)
    return Transaction(ops=(op,))
